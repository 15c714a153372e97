import type { Explanation } from '@postern/contracts'
import { Badge } from '../ui/badge.tsx'

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
  unknown: { tone: 'neutral', label: 'Not checked' },
} as const

/** Shows the checks of a gateway, in order. */
export function ExplanationSteps({ explanation }: { readonly explanation: Explanation }) {
  const { decision, status, code, steps, refusal, now } = explanation
  return (
    <div role="status">
      <p className="explain-decision">
        {decision === 'accepted'
          ? 'A gateway accepts this request.'
          : `A gateway ${refusal === null ? 'refuses' : 'refused'} this request: ${status} ${code}.`}
      </p>
      {now === null ? undefined : (
        <p>
          {now.decision === 'accepted'
            ? 'With its current settings, the key would be accepted.'
            : `With its current settings, the key would still be refused: ${now.code}.`}
        </p>
      )}
      <ol className="explain-steps">
        {steps.map(({ step, outcome, detail }) => (
          <li key={step} className={outcome === 'skipped' ? 'faint' : undefined}>
            <span>{stepNames[step]}</span>
            <Badge tone={outcomes[outcome].tone}>{outcomes[outcome].label}</Badge>
            <span>{outcome === 'skipped' ? undefined : detail}</span>
          </li>
        ))}
      </ol>
    </div>
  )
}
