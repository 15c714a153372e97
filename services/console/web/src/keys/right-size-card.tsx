import type { ApiKey, ApiKeyUsage, NamedScope } from '@postern/contracts'
import { changeKey, readTaggedKey } from '../api/keys.ts'
import { Button } from '../ui/button.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { useChange } from '../ui/use-change.ts'
import { When } from '../ui/when.tsx'

interface Props {
  readonly apiKey: ApiKey
  readonly size: ApiKeyUsage['right_sizing']
  readonly onNarrowed: (key: ApiKey) => void
  /** Absent if the key cannot be rotated. */
  readonly onRotate: ((scopes: readonly NamedScope[]) => void) | undefined
}

/** Offers to remove the scopes that an active key did not need in 30 days. */
export function RightSizeCard({ apiKey, size, onNarrowed, onRotate }: Props) {
  const change = useChange()
  const { suggested_scopes: suggested, unneeded_scopes: unneeded } = size
  const uses = `Uses ${size.routes_used} of ${size.routes_callable} routes`
  if (!size.complete) {
    return (
      <p className="fine-print">
        {uses} since <When at={size.counted_from} as="day" />. After 30 days, this page shows the scopes that it does
        not need.
      </p>
    )
  }
  if (suggested === null) return undefined
  const narrow = async () => {
    await change.run(async (signal) => {
      onNarrowed(await changeKey(await readTaggedKey(apiKey.id, signal), { scopes: suggested }, signal))
    })
  }
  return (
    <>
      {change.failure === undefined ? undefined : <Failure error={change.failure} title="The key was not narrowed" />}
      <Notice
        tone="warning"
        title={uses}
        action={
          <>
            <Button
              size="small"
              isBusy={change.isBusy}
              onPress={() => {
                void narrow()
              }}
            >
              Keep only {suggested.join(', ')}
            </Button>
            {onRotate === undefined ? undefined : (
              <Button size="small" isDisabled={change.isBusy} onPress={() => onRotate(suggested)}>
                Rotate to a narrower key…
              </Button>
            )}
          </>
        }
      >
        {unneeded.join(', ')} {unneeded.length === 1 ? 'was' : 'were'} never needed in the last 30 days. A scope that is
        removed cannot be added again.
      </Notice>
    </>
  )
}
