import { type FormEvent, useEffect, useId, useRef, useState } from 'react'
import type { Connector } from '../../api/sync.ts'
import { ApiProblem } from '../../api/request.ts'
import { Button } from '../../ui/button.tsx'
import { TextBox } from '../../ui/fields.tsx'
import { Failure, Notice } from '../../ui/notice.tsx'
import { Overdue } from '../../ui/overdue.tsx'
import { Select } from '../../ui/select.tsx'
import { useChange } from '../../ui/use-change.ts'
import { datasetNames } from '../words.ts'
import { type Draft, type Faults, type RebasedDraft, faultsOf, isWithoutSchedule, rebase } from './draft.ts'
import { LimitsSection } from './limits-section.tsx'
import { MappingSection } from './mapping-section.tsx'
import { ScheduleSection } from './schedule-section.tsx'
import { SourceSection, TypeCards } from './source-section.tsx'

interface Props {
  readonly start: Draft
  /** Undefined for a new connector. */
  readonly before: Connector | undefined
  /** Columns of the source, if it was tested. */
  readonly columns: readonly string[]
  readonly onSave: (draft: Draft, signal: AbortSignal) => Promise<void>
  readonly onReload?: () => Promise<Draft | undefined>
  readonly onCancel: () => void
}

const datasetChoices = (['auditable_entities', 'org_structure', 'people', 'test_procedures'] as const).map((value) => ({
  value,
  label: datasetNames[value],
}))

const kinds = [
  { value: 'legal_entity', label: 'Legal entities' },
  { value: 'management', label: 'Management' },
  { value: 'process', label: 'Processes' },
  { value: 'geography', label: 'Geography' },
  { value: 'technology', label: 'Technology' },
  { value: 'custom', label: 'Another' },
] as const

export function ConnectorForm({ start, before, columns, onSave, onReload, onCancel }: Props) {
  const form = useId()
  const [draft, setDraft] = useState(start)
  // The base for detecting edits.
  const [base, setBase] = useState(start)
  const [rebased, setRebased] = useState<RebasedDraft>()
  const [unread, setUnread] = useState<unknown>()
  const [faults, setFaults] = useState<Faults>({})
  const saving = useChange()
  const { failure, setFailure } = saving
  const [isReading, setReading] = useState(false)
  const isBusy = saving.isBusy || isReading
  const wasKeyTyped = useRef(before !== undefined)

  const change = (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part }))
  const fail = (found: Faults) => {
    setFaults(found)
    requestAnimationFrame(() => {
      const first = document.querySelector(`[id="${form}"] [aria-invalid="true"]`)
      if (first instanceof HTMLElement) first.focus()
    })
  }

  const save = async () => {
    const found = faultsOf(draft, (name) => before?.secrets[name] !== undefined)
    setFailure(undefined)
    if (Object.keys(found).length > 0) {
      fail(found)
      return
    }
    setFaults({})
    setRebased(undefined)
    await saving.run(async (signal) => {
      try {
        await onSave(draft, signal)
      } catch (error) {
        if (error instanceof ApiProblem) fail(refusedFields(error))
        throw error
      }
    })
  }

  const reloadConnector = async () => {
    setReading(true)
    setUnread(undefined)
    try {
      const now = await onReload?.()
      if (now === undefined) return
      setBase(now)
      // Keeps edits made in the meantime.
      setDraft((old) => rebase(old, base, now).draft)
      setRebased(rebase(draft, base, now))
      setFailure(undefined)
    } catch (error) {
      setUnread(error)
    } finally {
      setReading(false)
    }
  }
  const isOutdated =
    onReload !== undefined && failure instanceof ApiProblem && failure.problem.code === 'precondition_failed'

  return (
    <form
      id={form}
      className="setup"
      noValidate
      onSubmit={(event: FormEvent) => {
        event.preventDefault()
        if (!isBusy) void save()
      }}
    >
      <section className="card form" aria-labelledby="source-title">
        <h2 id="source-title">Source</h2>
        {before === undefined ? (
          <TypeCards
            type={draft.type}
            onType={(chosen) => {
              setFaults({})
              change(chosen)
            }}
          />
        ) : undefined}
        <SourceSection draft={draft} faults={faults} onChange={change} set={before?.secrets ?? {}} />
      </section>

      <section className="card form" aria-labelledby="target-title">
        <h2 id="target-title">What it imports</h2>
        <div className="settings">
          <TextBox
            label="Name"
            value={draft.name}
            onChange={(name) => change({ name, ...(wasKeyTyped.current ? {} : { key: keyFrom(name) }) })}
            error={faults['name']}
            maxLength={255}
            placeholder="Process register"
          />
          {before === undefined ? (
            <TextBox
              label="Key"
              value={draft.key}
              onChange={(key) => {
                wasKeyTyped.current = true
                change({ key })
              }}
              error={faults['key']}
              maxLength={64}
              help="Identifies the connector in the API. It cannot be changed later."
            />
          ) : undefined}
          {before === undefined ? (
            <Select
              label="Data"
              choices={datasetChoices}
              value={draft.dataset}
              // Another dataset has other fields.
              onChange={(dataset) => change({ dataset, rules: [] })}
            />
          ) : undefined}
        </div>
        {draft.dataset === 'org_structure' && before === undefined ? (
          <div className="settings">
            <TextBox
              label="Name of the hierarchy"
              value={draft.hierarchy.name}
              onChange={(name) =>
                change({ hierarchy: { ...draft.hierarchy, name, key: keyFrom(name) || draft.hierarchy.key } })
              }
              error={faults['hierarchy.name']}
              maxLength={255}
              placeholder="Legal structure"
            />
            <TextBox
              label="Key of the hierarchy"
              value={draft.hierarchy.key}
              onChange={(key) => change({ hierarchy: { ...draft.hierarchy, key } })}
              error={faults['hierarchy.key']}
              maxLength={64}
            />
            <Select
              label="Kind of hierarchy"
              choices={kinds}
              value={draft.hierarchy.kind}
              onChange={(kind) => change({ hierarchy: { ...draft.hierarchy, kind } })}
            />
          </div>
        ) : undefined}
      </section>

      <section className="card form" aria-labelledby="mapping-title">
        <h2 id="mapping-title">Fields</h2>
        <MappingSection
          dataset={draft.dataset}
          rules={draft.rules}
          onChange={(rules) => change({ rules })}
          faults={faults}
          columns={columns}
        />
      </section>

      <section className="card form" aria-labelledby="schedule-title">
        <h2 id="schedule-title">When it runs</h2>
        {isWithoutSchedule(draft) ? (
          <p className="help">Whenever somebody uploads the file.</p>
        ) : (
          <ScheduleSection schedule={draft.schedule} onChange={(schedule) => change({ schedule })} faults={faults} />
        )}
      </section>

      <section className="card form" aria-labelledby="limits-title">
        <h2 id="limits-title">Safeguards</h2>
        <LimitsSection draft={draft} faults={faults} onChange={change} />
      </section>

      {isOutdated ? (
        <OutdatedNotice
          isBusy={isBusy}
          failure={unread}
          onLoad={() => {
            void reloadConnector()
          }}
        />
      ) : failure === undefined ? undefined : (
        <Failure
          error={failure}
          title="The connector was not saved"
          unsure="It is not known whether the connector was saved"
        />
      )}
      <Overdue change={saving} mayBe="The connector may already have been saved." />
      {rebased === undefined ? undefined : <ReloadedNotice rebased={rebased} />}
      {Object.keys(faults).length > 0 && failure === undefined ? (
        <p className="field-error" role="alert">
          Correct the marked fields.
        </p>
      ) : undefined}
      <div className="setup-foot">
        <Button onPress={onCancel}>Cancel</Button>
        <Button look="primary" type="submit" isBusy={isBusy}>
          {before === undefined ? 'Set up connector' : 'Save'}
        </Button>
      </div>
    </form>
  )
}

interface OutdatedProps {
  readonly isBusy: boolean
  readonly failure: unknown
  readonly onLoad: () => void
}

function OutdatedNotice({ isBusy, failure, onLoad }: OutdatedProps) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    place.current?.scrollIntoView({ block: 'nearest' })
  }, [])
  return (
    <div ref={place} className="failure">
      <Notice
        tone="warning"
        title="The connector has changed since this form was opened"
        isNews
        action={
          <Button size="small" isBusy={isBusy} onPress={onLoad}>
            Load the new version
          </Button>
        }
      >
        Your changes were not saved. Load the current version: your input stays, and you can review it before you save.
      </Notice>
      {failure === undefined ? undefined : <Failure error={failure} title="The connector cannot be loaded" />}
    </div>
  )
}

function ReloadedNotice({ rebased: { changed, kept } }: { readonly rebased: RebasedDraft }) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    place.current?.focus()
  }, [])
  return (
    <div ref={place} tabIndex={-1}>
      <Notice tone="info" title="This is the current connector with your input" isNews>
        <p>
          {changed.length === 0
            ? 'The changes of others do not affect this form.'
            : `Changed by others: ${changed.join(', ')}.`}
        </p>
        {kept.length === 0 ? undefined : (
          <p>You changed these too: {kept.join(', ')}. The form shows your values and would save them.</p>
        )}
        <p>Review the form and save it again.</p>
      </Notice>
    </div>
  )
}

/** `/config/auth/username` becomes `config.auth.username`. */
function refusedFields({ problem }: ApiProblem): Faults {
  const inForm = (problem.errors ?? []).flatMap(({ pointer, detail }) =>
    pointer === undefined ? [] : [[pointer.slice(1).replaceAll('/', '.'), detail] as const],
  )
  const taken = problem.code === 'conflict' ? [['key', 'Another connector has this key'] as const] : []
  return Object.fromEntries([...taken, ...inForm])
}

/** `Process register` becomes `process-register`. */
function keyFrom(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 64)
}
