import { type FormEvent, useState } from 'react'
import type { Explanation } from '@postern/contracts'
import { explainRequest } from '../api/keys.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure } from '../ui/notice.tsx'
import { Select } from '../ui/select.tsx'
import { useChange } from '../ui/use-change.ts'

const methods = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'] as const
const choices = methods.map((method) => ({ value: method, label: method }))

const stepNames: Readonly<Record<Explanation['steps'][number]['step'], string>> = {
  target: 'Path',
  state: 'State',
  expiry: 'Expiry',
  tenant: 'Organization',
  address: 'Address',
  route: 'Route',
  scope: 'Scope',
  limit: 'Rate limit',
}

const outcomes = {
  passed: { tone: 'success', label: 'Passed' },
  refused: { tone: 'danger', label: 'Refused' },
  skipped: { tone: 'neutral', label: 'Not reached' },
  unknown: { tone: 'neutral', label: 'Counted by gateways' },
} as const

/** Asks what a gateway would decide about a request with the key, and shows each step. Sends nothing to the API itself. */
export function ExplainCard({ id }: { readonly id: string }) {
  const [method, setMethod] = useState<(typeof methods)[number]>('GET')
  const [path, setPath] = useState('')
  const [address, setAddress] = useState('')
  const [explanation, setExplanation] = useState<Explanation>()
  const change = useChange()
  const ask = async () => {
    await change.run(async (signal) => {
      setExplanation(undefined)
      setExplanation(await explainRequest(id, { method, path: path.trim(), address: address.trim() }, signal))
    })
  }
  return (
    <section className="card" aria-labelledby="explain-title">
      <h2 id="explain-title">Why was this refused?</h2>
      <form
        className="explain-form"
        noValidate
        onSubmit={(event: FormEvent) => {
          event.preventDefault()
          if (!change.isBusy) void ask()
        }}
      >
        <Select label="Method" choices={choices} value={method} onChange={setMethod} />
        <TextBox label="Path" value={path} onChange={setPath} isOptional="unsaid" placeholder="/api/v1/findings" />
        <TextBox
          label="Client address"
          value={address}
          onChange={setAddress}
          isOptional="unsaid"
          placeholder="203.0.113.7"
        />
        <Button type="submit" isBusy={change.isBusy}>
          Explain
        </Button>
      </form>
      <p className="fine-print">Checks a request with the present settings of the key. Nothing is sent or counted.</p>
      {change.failure === undefined ? undefined : (
        <Failure error={change.failure} title="The request could not be explained" />
      )}
      {explanation === undefined ? undefined : <Steps explanation={explanation} />}
    </section>
  )
}

function Steps({ explanation }: { readonly explanation: Explanation }) {
  const { decision, status, code, steps } = explanation
  return (
    <div role="status">
      <p className="explain-decision">
        {decision === 'accepted'
          ? 'A gateway accepts this request.'
          : `A gateway refuses this request: ${status} ${code}.`}
      </p>
      <ol className="explain-steps">
        {steps.map(({ step, outcome, detail }) => (
          <li key={step} className={outcome === 'skipped' ? 'faint' : undefined}>
            <span className="explain-step">{stepNames[step]}</span>
            <Badge tone={outcomes[outcome].tone}>{outcomes[outcome].label}</Badge>
            <span>{outcome === 'skipped' ? undefined : detail}</span>
          </li>
        ))}
      </ol>
    </div>
  )
}
