import { useEffect, useRef } from 'react'
import { Button } from './button.tsx'
import { Notice } from './notice.tsx'
import { type Change, useIsOverdue } from './use-change.ts'

interface Props {
  readonly change: Pick<Change, 'isBusy' | 'stop'>
  readonly mayBe: string
  readonly advice?: string
}

export function Overdue({ change, mayBe, advice = 'You can try again without doing it twice.' }: Props) {
  const isOverdue = useIsOverdue(change.isBusy)
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (isOverdue) place.current?.scrollIntoView({ block: 'nearest' })
  }, [isOverdue])
  if (!isOverdue) return undefined
  return (
    <div ref={place} className="failure">
      <Notice
        tone="warning"
        title="Postern has not answered yet"
        isNews
        action={
          <Button size="small" onPress={change.stop}>
            Stop waiting
          </Button>
        }
      >
        <p>{mayBe} Keep waiting, or stop waiting.</p>
        <p>{advice}</p>
      </Notice>
    </div>
  )
}

export function OverdueReading() {
  const isOverdue = useIsOverdue(true)
  if (!isOverdue) return undefined
  return (
    <Notice tone="info" title="Postern has not answered yet" isNews>
      The page appears when the response arrives. After 20 seconds you can try again.
    </Notice>
  )
}
