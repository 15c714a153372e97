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
import { type Draft, type Faults, type Rebased, faultsOf, isWithoutSchedule, rebase } from './draft.ts'
import { LimitsSection } from './limits-section.tsx'
import { MappingSection } from './mapping-section.tsx'
import { ScheduleSection } from './schedule-section.tsx'
import { SourceSection, TypeCards } from './source-section.tsx'

interface Props {
  readonly start: Draft
  /** The connector that is changed; undefined for a new one. */
  readonly before: Connector | undefined
  /** Columns that the source has shown, where it was tried. */
  readonly columns: readonly string[]
  readonly onSave: (draft: Draft, signal: AbortSignal) => Promise<void>
  /** Reads the connector anew, where it was changed since the form was opened; gives what the form would begin with now. */
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

/** Everything that there is to set of a connector. */
export function ConnectorForm({ start, before, columns, onSave, onReload, onCancel }: Props) {
  const form = useId()
  const [draft, setDraft] = useState(start)
  // What the connector was when it was read last: by this shows what was typed.
  const [base, setBase] = useState(start)
  const [rebased, setRebased] = useState<Rebased>()
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
    // After the fields have been marked, whoever types is led to the first of them.
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

  const loadAnew = async () => {
    setReading(true)
    setUnread(undefined)
    try {
      const now = await onReload?.()
      if (now === undefined) return
      setBase(now)
      // Of what is typed until then nothing is lost either.
      setDraft((old) => rebase(old, base, now).draft)
      setRebased(rebase(draft, base, now))
      setFailure(undefined)
    } catch (error) {
      setUnread(error)
    } finally {
      setReading(false)
    }
  }
  const isOvertaken =
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
        <h2 id="target-title">What it keeps true</h2>
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
              help="By which the API knows it. It stays."
            />
          ) : undefined}
          {before === undefined ? (
            <Select
              label="Data"
              choices={datasetChoices}
              value={draft.dataset}
              // Fields of another dataset have other names.
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

      {isOvertaken ? (
        <Overtaken
          isBusy={isBusy}
          failure={unread}
          onLoad={() => {
            void loadAnew()
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
      {rebased === undefined ? undefined : <LoadedAnew rebased={rebased} />}
      {Object.keys(faults).length > 0 && failure === undefined ? (
        <p className="field-error" role="alert">
          Something is missing: see the fields that are marked.
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

interface OvertakenProps {
  readonly isBusy: boolean
  /** Why it could not be loaded, where that was tried. */
  readonly failure: unknown
  readonly onLoad: () => void
}

/** That somebody else was quicker, and the way on. */
function Overtaken({ isBusy, failure, onLoad }: OvertakenProps) {
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
            Load it anew
          </Button>
        }
      >
        Nothing was saved over that. Load it as it is now: what you have typed stays, and you see it before you save.
      </Notice>
      {failure === undefined ? undefined : <Failure error={failure} title="The connector cannot be loaded" />}
    </div>
  )
}

function LoadedAnew({ rebased: { changed, kept } }: { readonly rebased: Rebased }) {
  const place = useRef<HTMLDivElement>(null)
  // The button that had the focus is gone.
  useEffect(() => {
    place.current?.focus()
  }, [])
  return (
    <div ref={place} tabIndex={-1}>
      <Notice tone="info" title="This is the connector as it is now, with what you have typed" isNews>
        <p>
          {changed.length === 0
            ? 'Nothing that stands in this form is another.'
            : `Changed meanwhile: ${changed.join(', ')}.`}
        </p>
        {kept.length === 0 ? undefined : (
          <p>
            You have changed the same: {kept.join(', ')}. What you have typed stands there, and is what you would save.
          </p>
        )}
        <p>Look it over, and save it again.</p>
      </Notice>
    </div>
  )
}

/** `/config/auth/username` is the field `config.auth.username` of the form. */
function refusedFields({ problem }: ApiProblem): Faults {
  const inForm = (problem.errors ?? []).flatMap(({ pointer, detail }) =>
    pointer === undefined ? [] : [[pointer.slice(1).replaceAll('/', '.'), detail] as const],
  )
  const taken = problem.code === 'conflict' ? [['key', 'Another connector has this key'] as const] : []
  return Object.fromEntries([...taken, ...inForm])
}

/** A name as a key: `Process register` is `process-register`. */
function keyFrom(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 64)
}
