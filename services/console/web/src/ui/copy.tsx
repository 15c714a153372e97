import { useEffect, useState } from 'react'
import { Button } from './button.tsx'

interface Props {
  readonly text: string
  readonly label: string
  readonly look?: 'primary' | 'plain' | 'quiet'
  readonly size?: 'small' | 'usual'
  readonly onCopied?: () => void
}

export function CopyButton({ text, label, look = 'plain', size = 'usual', onCopied }: Props) {
  const [state, setState] = useState<'ready' | 'copied' | 'refused'>('ready')
  useEffect(() => {
    if (state !== 'copied') return
    const timer = setTimeout(() => setState('ready'), 4000)
    return () => clearTimeout(timer)
  }, [state])
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setState('copied')
      onCopied?.()
    } catch {
      setState('refused')
    }
  }
  const words = state === 'copied' ? 'Copied' : state === 'refused' ? 'Select and copy by hand' : label
  return (
    <>
      <Button
        look={look}
        size={size}
        icon={state === 'copied' ? 'check' : 'copy'}
        onPress={() => {
          void copy()
        }}
      >
        {words}
      </Button>
      <span className="for-listeners" role="status">
        {state === 'copied'
          ? 'Copied to the clipboard'
          : state === 'refused'
            ? 'The browser did not allow it: select and copy by hand'
            : ''}
      </span>
    </>
  )
}
