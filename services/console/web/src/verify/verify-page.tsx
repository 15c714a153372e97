import { useRef, useState } from 'react'
import { DropZone } from 'react-aria-components/DropZone'
import { request } from '../api/request.ts'
import { Button } from '../ui/button.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Icon } from '../ui/icon.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Page } from '../ui/page.tsx'
import { VerdictCard } from './verdict-card.tsx'
import {
  type Checkpoint,
  NotADocumentError,
  type PublicKey,
  type Verdict,
  checkpointOf,
  verifyDocument,
} from './verify.ts'

const maxBytes = 64 * 1024 * 1024

type State =
  | { readonly kind: 'empty' }
  | { readonly kind: 'working' }
  | { readonly kind: 'done'; readonly name: string; readonly verdicts: readonly Verdict[] }
  | { readonly kind: 'refused'; readonly name: string; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: unknown }

export function VerifyPage() {
  const [state, setState] = useState<State>({ kind: 'empty' })
  const [text, setText] = useState('')
  const checkpoint = useRef<Checkpoint>(undefined)
  const chooser = useRef<HTMLInputElement>(null)

  const verify = async (name: string, read: () => Promise<string>) => {
    setState({ kind: 'working' })
    try {
      const [content, keys] = await Promise.all([read(), readKeys()])
      const verdicts = await verifyDocument(content, keys, checkpoint.current)
      checkpoint.current = verdicts.map(checkpointOf).findLast((each) => each !== undefined) ?? checkpoint.current
      setState({ kind: 'done', name, verdicts })
    } catch (error) {
      setState(
        error instanceof NotADocumentError
          ? { kind: 'refused', name, reason: error.message }
          : { kind: 'failed', error },
      )
    }
  }
  const verifyFile = (file: File) => {
    void verify(file.name, async () => {
      if (file.size > maxBytes)
        throw new NotADocumentError('It is larger than 64 MiB, the most that can be checked here.')
      return await file.text()
    })
  }

  return (
    <Page
      title="Verify a receipt"
      lead="Each evidence upload has a signed receipt, and each day of the remediation log a signed checkpoint. Drop one here to check that it is genuine and unchanged."
    >
      <DropZone
        className="drop"
        aria-label="Drop a receipt here"
        getDropOperation={() => 'copy'}
        onDrop={(event) => {
          const item = event.items.find((each) => each.kind === 'file')
          if (item !== undefined) void item.getFile().then(verifyFile)
        }}
      >
        <Icon name="upload" size={28} />
        <p>
          <strong>Drop a receipt, a checkpoint or an export of the log</strong>
        </p>
        <p className="help">It is checked in this browser and not sent anywhere.</p>
        <Button onPress={() => chooser.current?.click()}>Choose a file</Button>
        <input
          ref={chooser}
          type="file"
          hidden
          aria-label="File to verify"
          accept=".json,.ndjson,.jws,.txt,application/json"
          onChange={(event) => {
            const [file] = event.currentTarget.files ?? []
            if (file !== undefined) verifyFile(file)
            event.currentTarget.value = ''
          }}
        />
      </DropZone>
      <div aria-live="polite" className="verdicts">
        {state.kind === 'working' ? <p className="help">Checking…</p> : undefined}
        {state.kind === 'refused' ? (
          <Notice tone="warning" title={`${state.name} cannot be checked`}>
            {state.reason}
          </Notice>
        ) : undefined}
        {state.kind === 'failed' ? <Failure error={state.error} title="It could not be checked" /> : undefined}
        {state.kind === 'done'
          ? state.verdicts.map((verdict, index) => (
              <VerdictCard
                key={`${state.name} ${JSON.stringify(verdict.content)}`}
                verdict={verdict}
                name={
                  state.verdicts.length === 1 ? state.name : `${state.name}, ${index + 1} of ${state.verdicts.length}`
                }
              />
            ))
          : undefined}
      </div>
      <form
        className="card form"
        onSubmit={(event) => {
          event.preventDefault()
          void verify('The text', async () => await Promise.resolve(text))
        }}
      >
        <TextBox
          label="Or paste it"
          value={text}
          onChange={setText}
          rows={5}
          isOptional="unmarked"
          help="The receipt as JSON, or only its signature (three parts separated by dots)."
        />
        <div>
          <Button type="submit" isDisabled={text.trim() === ''}>
            Verify
          </Button>
        </div>
      </form>
    </Page>
  )
}

/** Receipts and checkpoints are signed with different keys. */
async function readKeys(): Promise<readonly PublicKey[]> {
  return (await Promise.all(['/.well-known/jwks.json', '/api/v1/remediation-log/keys'].map(readKeySet))).flat()
}

async function readKeySet(path: string): Promise<readonly PublicKey[]> {
  return (await request<{ readonly keys: readonly PublicKey[] }>(path)).body.keys
}
