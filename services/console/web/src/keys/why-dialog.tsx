import { useCallback } from 'react'
import type { RefusedRequest } from '@postern/contracts'
import { explainRequest } from '../api/keys.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useResource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'
import { ExplanationSteps } from './explanation-steps.tsx'

interface Props {
  readonly id: string
  readonly refusal: RefusedRequest
  readonly onClose: () => void
}

/** Explains one refusal of a key. */
export function WhyDialog({ id, refusal, onClose }: Props) {
  const { at, method, route, address, request_id: requestId } = refusal
  const load = useCallback(
    async (signal: AbortSignal) => await explainRequest(id, { request_id: requestId }, signal),
    [id, requestId],
  )
  const { resource, reload } = useResource(load)
  return (
    <Dialog
      title="Why was this refused?"
      isOpen
      size="large"
      onClose={onClose}
      footer={
        <Button look="primary" onPress={onClose}>
          Close
        </Button>
      }
    >
      <p>
        {method} <code>{route ?? 'no route'}</code> from <code>{address}</code>, <When at={at} />, request{' '}
        <code className="request-id">{requestId}</code>
      </p>
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The refusal cannot be explained" onRetry={reload} />
      ) : resource.state === 'ready' ? (
        <ExplanationSteps explanation={resource.value} />
      ) : (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="60%" />
          <Skeleton width="80%" />
        </div>
      )}
    </Dialog>
  )
}
