import { createHash } from 'node:crypto'
import { maxCurrentRows } from '@postern/contracts/internal'
import { maxPushedNodes } from '@postern/contracts'
import {
  checkCreations,
  listParentsOutside,
  nextKeys,
  type Unpacked,
  summarizeCreations,
  unpackLast,
} from '../creation/store.ts'
import { type DatasetRules, datasetRules, scopeOf } from '../dataset/rules.ts'
import {
  type Comparison,
  type MissingCounts,
  type Tx,
  countKnown,
  countMissing,
  findFlagged,
  listCandidates,
  listMissing,
  recordChanges,
  recordDeactivations,
  summarizeChanges,
} from '../diff/store.ts'
import { isAnythingShared } from '../diff/also-brought.ts'
import { type LostField, listLostFields } from '../diff/lost-fields.ts'
import { type CurrentPart, currentParts } from '../push/current-parts.ts'
import type { Universe } from '../push/universe.ts'
import type { Held } from '../staging/block/store.ts'
import { breachesOf } from '../run/rules.ts'
import { type StagedError, insertErrors } from '../staging/error-store.ts'
import {
  countKeylessRows,
  countStaged,
  hasParents,
  listOutsideParents,
  refuseDuplicateEmails,
  refuseDuplicates,
  refuseMisplacedRows,
  settleBelowStored,
} from '../staging/store.ts'
import { type Hold, RunCancelled, RunRefused } from './held-run.ts'
import { batchRows } from './read-source.ts'
import { noteOutcome } from './store.ts'

export function comparisonOf(hold: Hold): Comparison {
  const { connector, run } = hold
  const { keyField, parentField, statusField, inactive, draft, uniqueField, maxDepth } = datasetRules[connector.dataset]
  const scope = scopeOf(connector.dataset, connector.hierarchy?.key)
  const fields = { keyField, parentField, statusField, inactive, draft, uniqueField, maxDepth }
  return { runId: run.id, connectorId: connector.id, scope, ...fields }
}

/** How the rows with these keys stand in the universe, part by part. */
export function askCurrent(hold: Hold, universe: Universe, keys: readonly string[]): AsyncIterable<CurrentPart> {
  const { dataset, hierarchy } = hold.connector
  return currentParts(
    keys,
    async (some) =>
      await universe.currentRows(await hold.asker(), {
        dataset,
        keys: some,
        ...(hierarchy === null ? {} : { hierarchy: hierarchy.key }),
      }),
  )
}

/**
 * Refuses rows that cannot be taken in together: keys that stand twice, parents that are nowhere, circles. Rows that are as
 * they were taken in before have nothing wrong with them.
 */
export async function validateTogether(hold: Hold, universe: Universe, compared: number): Promise<void> {
  const { dataset } = hold.connector
  const rules: DatasetRules = datasetRules[dataset]
  const { id } = hold.run
  if (compared > 0 && rules.isMadeInBlocks && (await areCreations(hold, universe, rules))) {
    await hold.step(async (tx) => ({ counts: await countStaged(tx, id) }))
    return
  }
  await hold.step(async (tx) => {
    if (compared > 0) await refuseDuplicates(tx, id, rules.keyField)
    if (compared > 0 && dataset === 'people') await refuseDuplicateEmails(tx, id, scopeOf(dataset, undefined))
    return { status: 'validating' }
  })
  const { parentField } = rules
  if (compared > 0 && parentField !== null && (await hold.read(async (tx) => await hasParents(tx, id)))) {
    await settleStoredParents(hold, universe)
    await hold.step(async (tx) => {
      await refuseMisplacedRows(tx, id, rules.maxDepth, parentField)
      return {}
    })
  }
  if (compared > 0) await hold.step(async (tx) => ({ counts: await countStaged(tx, id) }))
}

/**
 * Whether all rows that can be taken in make something new, parents before their children: then they stay as they were kept. What is
 * kept so and is not that is compared as all other rows are.
 */
async function areCreations(hold: Hold, universe: Universe, { maxDepth }: DatasetRules): Promise<boolean> {
  const { id } = hold.run
  await hold.step(async () => ({ status: 'validating' }))
  const { total, fits } = await hold.read(async (tx) => await checkCreations(tx, id, maxDepth))
  if (total === 0) return false
  if (fits && (await haveParents(hold, universe)) && (await areNew(hold, universe))) return true
  await unpackCreations(hold, { rows: true, changes: false })
  return false
}

/** Blocks of which rows are made by one statement: well within the life of an assertion. */
const blocksAStep = 50

/** Treats what was kept in blocks as all other rows from here on, some blocks a step. Who has asked to cancel is heard by the next one. */
export async function unpackCreations(hold: Hold, what: Unpacked): Promise<void> {
  for (let isLeft = true; isLeft;) {
    const unpacked = hold.step(async (tx) => {
      isLeft = await unpackLast(tx, hold.run.id, blocksAStep, what)
      return {}
    })
    await unpacked.catch((error: unknown) => {
      if (!(error instanceof RunCancelled)) throw error
    })
  }
}

async function haveParents(hold: Hold, universe: Universe): Promise<boolean> {
  for (let after = ''; ;) {
    const keys = await hold.read(async (tx) => await listParentsOutside(tx, hold.run.id, after, maxCurrentRows))
    for await (const { from, to, rows } of askCurrent(hold, universe, keys)) {
      if (rows.length < to - from) return false
    }
    const last = keys.at(-1)
    if (last === undefined || keys.length < maxCurrentRows) return true
    after = last
  }
}

/** The next keys are read while the universe is asked for these. */
async function areNew(hold: Hold, universe: Universe): Promise<boolean> {
  const blocks = maxCurrentRows / batchRows
  const next = async (after: number) => await hold.read(async (tx) => await nextKeys(tx, hold.run.id, after, blocks))
  let some = await next(0)
  while (some.keys.length > 0) {
    const [isAny, following] = await Promise.all([isAnyThere(hold, universe, some.keys), next(some.last)])
    if (isAny) return false
    some = following
  }
  return true
}

async function isAnyThere(hold: Hold, universe: Universe, keys: readonly string[]): Promise<boolean> {
  for await (const { rows } of askCurrent(hold, universe, keys)) if (rows.length > 0) return true
  return false
}

async function settleStoredParents(hold: Hold, universe: Universe): Promise<void> {
  for (let after = ''; ;) {
    const keys = await hold.read(async (tx) => await listOutsideParents(tx, hold.run.id, after, maxCurrentRows))
    for await (const { rows: stored } of askCurrent(hold, universe, keys)) {
      if (stored.length === 0) continue
      await hold.step(async (tx) => {
        await settleBelowStored(
          tx,
          hold.run.id,
          stored.map(({ key }) => key),
        )
        return {}
      })
    }
    const last = keys.at(-1)
    if (last === undefined || keys.length < maxCurrentRows) return
    after = last
  }
}

/** What was read of a source. */
export interface Staged {
  /** Rows that are not known to be as they were. */
  readonly compared: number
  /** What the others were held against; undefined where there are none. */
  readonly held: Held | undefined
}

/** What a plan has come to. */
export interface Found {
  /** Rows that are not known to be as they were. */
  readonly compared: number
  /** Rows that the connector has brought and the source does not have. */
  readonly missing: number
  readonly changes: number
}

/** Finds out what the run would change, and whether that is so much that somebody has to look at it first. */
export async function findChanges(hold: Hold, universe: Universe, { compared, held }: Staged): Promise<Found> {
  const comparison = comparisonOf(hold)
  await hold.step(async () => ({ status: 'diffing' }))
  if (compared > 0) await compareRows(hold, universe, comparison)
  const keyless = compared > 0 ? await hold.read(async (tx) => await countKeylessRows(tx, hold.run.id)) : 0
  const rows = await hold.read(async (tx) => await countAgainstSource(tx, hold, comparison, { compared, held }))
  const takesBack = hold.connector.missing_policy === 'deactivate' && keyless === 0 && rows.missing.total > 0
  const found = takesBack ? await findDeactivations(hold, universe, comparison) : { gone: 0, drafts: 0 }
  const changes = await conclude(hold, comparison, { ...found, keyless, ...rows })
  return { compared, missing: rows.missing.total, changes }
}

interface Against {
  /** Rows that the connector has brought and that were there when it last ran. */
  readonly known: number
  readonly missing: MissingCounts
}

async function countAgainstSource(
  tx: Tx,
  hold: Hold,
  comparison: Comparison,
  { compared, held }: Staged,
): Promise<Against> {
  // Each row of the source is another one of those that it was held against, at the time when it was.
  const { valid } = hold.counts
  if (compared === 0 && held !== undefined && !(await isAnythingShared(tx, comparison.scope))) {
    return { known: held.present, missing: { total: held.total - valid, lately: held.present - valid } }
  }
  const { present, total } = await countKnown(tx, comparison)
  return { known: present, missing: total === 0 ? none : await countMissing(tx, comparison) }
}

/** Compares the rows with how the universe has them, as many at a time as it tells of. */
async function compareRows(hold: Hold, universe: Universe, comparison: Comparison): Promise<void> {
  for (let after = 0; ;) {
    const candidates = await hold.read(async (tx) => await listCandidates(tx, hold.run.id, after, maxCurrentRows))
    const keys = candidates.map(({ key }) => key)
    for await (const { from, to, rows } of askCurrent(hold, universe, keys)) {
      const [first, last] = [candidates[from], candidates[to - 1]]
      if (first === undefined || last === undefined) throw new Error('the universe tells of the rows it was asked for')
      await hold.step(async (tx) => {
        await recordChanges(tx, comparison, { first: first.row, last: last.row }, rows)
        return {}
      })
    }
    const last = candidates.at(-1)
    if (last === undefined || candidates.length < maxCurrentRows) return
    after = last.row
  }
}

/** Rows that the source has no longer. */
interface Gone {
  /** Those that become inactive. */
  readonly gone: number
  /** Those that cannot, and stay. */
  readonly drafts: number
}

async function findDeactivations(hold: Hold, universe: Universe, comparison: Comparison): Promise<Gone> {
  let found: Gone = { gone: 0, drafts: 0 }
  for (let after = ''; ;) {
    const keys = await hold.read(async (tx) => await listMissing(tx, comparison, after, maxCurrentRows))
    for await (const { rows } of askCurrent(hold, universe, keys)) {
      await hold.step(async (tx) => {
        const { gone, drafts } = await recordDeactivations(tx, comparison, rows, found.gone)
        found = { gone: found.gone + gone, drafts: found.drafts + drafts }
        return {}
      })
    }
    const last = keys.at(-1)
    if (last === undefined || keys.length < maxCurrentRows) return found
    after = last
  }
}

async function conclude(
  hold: Hold,
  comparison: Comparison,
  { gone, drafts, keyless, known, missing: counted }: Against & Gone & { readonly keyless: number },
): Promise<number> {
  const { connector, run } = hold
  const policy = connector.missing_policy
  const { total: missing, lately } = policy === 'ignore' ? none : counted
  // Nobody but who holds the run writes its changes: what is read here is what the step commits.
  const { hash: changesHash, ...changes } = await hold.read(async (tx) => await summarize(tx, run.id))
  const changed = changes.updated + changes.moved + changes.reactivated + changes.deactivated
  assertInOnePush(hold, changes.created + changed)
  const { valid } = hold.counts
  const { deactivated } = changes
  const breaches = breachesOf(connector.safety, policy, { valid, known, missing: lately, deactivated, changed })
  const unchanged = Math.max(0, valid - changes.created - (changed - gone))
  const status = nextStatus(run.mode === 'dry_run', breaches.length > 0 && !run.overrideSafety)
  // What waits is approved row by row, by a worker of whatever release. The hash stays that of a run that is applied at once.
  if (status !== 'applying') await unpackCreations(hold, { rows: status === 'needs_approval', changes: true })
  // They are no changes of the run, and yet what is decided about.
  const isFlagged = policy === 'flag' && lately > 0 && keyless === 0
  const flagged = isFlagged ? await hold.read(async (tx) => await findFlagged(tx, comparison, flaggedShown)) : undefined
  const hash = flagged === undefined ? changesHash : sha256Of(changesHash, flagged.hash)
  const lost = await hold.read(async (tx) => await listLostFields(tx, comparison, fieldsOf(hold)))
  await hold.step(async (tx) => {
    await insertErrors(tx, run.id, lost.map(lostFromAll))
    if (status !== 'applying') await insertErrors(tx, run.id, (flagged?.keys ?? []).map(willBeFlagged))
    if (keyless > 0 && missing > 0) await insertErrors(tx, run.id, [undecided(keyless, comparison.keyField)])
    if (drafts > 0) await insertErrors(tx, run.id, [draftsStay(drafts, comparison.statusField)])
    if (status !== 'applying') await noteOutcome(tx, connector.id, 'works')
    return { status, counts: { ...changes, missing, unchanged }, breaches, diffHash: hash }
  })
  return changes.created + changed
}

async function summarize(tx: Tx, runId: string): ReturnType<typeof summarizeChanges> {
  const changes = await summarizeChanges(tx, runId)
  const { created, hash } = await summarizeCreations(tx, runId)
  if (hash === null) return changes
  return { ...changes, created: changes.created + created, hash: sha256Of(hash, changes.hash) }
}

function sha256Of(...parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

/** Rows that whoever looks at a plan is shown by their keys. */
const flaggedShown = 1000

function willBeFlagged(key: string): StagedError {
  const message = 'the source has it no longer: it is listed as missing once the run is carried out'
  return { row: null, key, field: null, code: 'row_missing', message, excerpt: null, severity: 'warning' }
}

const none = { total: 0, lately: 0 } as const

/** What is gone is not told from what cannot be read. */
function undecided(keyless: number, field: string): StagedError {
  const message = `${keyless} rows have no key that can be read, hence none is taken for gone: mend them`
  return { row: null, key: null, field, code: 'missing_undecided', message, excerpt: null }
}

function fieldsOf({ connector }: Hold): string[] {
  return Object.keys(datasetRules[connector.dataset].schema.shape)
}

/** A column that is gone, or has another name, empties its field. */
function lostFromAll({ field, rows }: LostField): StagedError {
  const message = `no row of the source has it, and ${rows} rows had it: where its column has another name now, name that in the mapping of the connector`
  return { row: null, key: null, field, code: 'field_gone', message, excerpt: null, severity: 'warning' }
}

function draftsStay(drafts: number, field: string | null): StagedError {
  const message = `${drafts} rows that the source has no longer are drafts, which cannot become inactive: they stay as they are`
  return { row: null, key: null, field, code: 'draft_stays', message, excerpt: null }
}

function nextStatus(isDryRun: boolean, isBroken: boolean): 'succeeded' | 'needs_approval' | 'applying' {
  if (isDryRun) return 'succeeded'
  return isBroken ? 'needs_approval' : 'applying'
}

/** The shape of a hierarchy changes in one transaction of the universe, hence in one push. */
function assertInOnePush(hold: Hold, changes: number): void {
  if (hold.connector.dataset !== 'org_structure' || changes <= maxPushedNodes) return
  throw new RunRefused(
    'too_many_nodes',
    `The run would change ${changes} nodes of a hierarchy, and ${maxPushedNodes} can be changed at once.`,
  )
}
