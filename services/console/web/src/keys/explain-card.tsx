import { type FormEvent, useState } from 'react'
import type { Explanation } from '@postern/contracts'
import { explainRequest } from '../api/keys.ts'
import { Button } from '../ui/button.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure } from '../ui/notice.tsx'
import { Select } from '../ui/select.tsx'
import { useChange } from '../ui/use-change.ts'
import { ExplanationSteps } from './explanation-steps.tsx'

const methods = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'] as const
const choices = methods.map((method) => ({ value: method, label: method }))

/** Shows what a gateway would decide about a request with the key, step by step. The request itself is not sent. */
export function ExplainCard({ id }: { readonly id: string }) {
  const [method, setMethod] = useState<(typeof methods)[number]>('GET')
  const [path, setPath] = useState('')
  const [address, setAddress] = useState('')
  const [explanation, setExplanation] = useState<Explanation>()
  const change = useChange()
  const ask = async () => {
    await change.run(async (signal) => {
      setExplanation(undefined)
      setExplanation(
        await explainRequest(
          id,
          { method, path: path.trim(), ...(address.trim() === '' ? {} : { address: address.trim() }) },
          signal,
        ),
      )
    })
  }
  return (
    <section className="card" aria-labelledby="explain-title">
      <h2 id="explain-title">Would this be accepted?</h2>
      <form
        className="explain-form"
        noValidate
        onSubmit={(event: FormEvent) => {
          event.preventDefault()
          if (!change.isBusy) void ask()
        }}
      >
        <Select label="Method" choices={choices} value={method} onChange={setMethod} />
        <TextBox label="Path" value={path} onChange={setPath} isOptional="unmarked" placeholder="/api/v1/findings" />
        <TextBox
          label="Client address"
          value={address}
          onChange={setAddress}
          isOptional="unmarked"
          placeholder="Last used from"
        />
        <Button type="submit" isBusy={change.isBusy}>
          Explain
        </Button>
      </form>
      <p className="fine-print">
        Checks a request against the current settings of the key. Nothing is sent or counted.
      </p>
      {change.failure === undefined ? undefined : (
        <Failure error={change.failure} title="The request could not be explained" />
      )}
      {explanation === undefined ? undefined : <ExplanationSteps explanation={explanation} />}
    </section>
  )
}
