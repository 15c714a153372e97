import { useRef, useState } from 'react'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { Notice } from '../ui/notice.tsx'
import { When } from '../ui/when.tsx'
import { type Check, type Verdict, digest } from './verify.ts'

const names = {
  receipt: 'Receipt of evidence',
  attachment: 'Receipt of an attachment',
  checkpoint: 'Checkpoint of the remediation log',
  signature: 'Signed statement',
  log: 'Export of the remediation log',
} as const

const icons = { true: 'check', false: 'close', open: 'info', beside: 'info' } as const

export function VerdictCard({ verdict, name }: { readonly verdict: Verdict; readonly name: string }) {
  const { kind, isTrue, content } = verdict
  const { sha256 } = content
  const [fileCheck, setFileCheck] = useState<Check>()
  const isOpen = verdict.checks.some(({ outcome }) => outcome === 'open')
  const isOtherFile = fileCheck?.outcome === 'false'
  const isRefused = !isTrue || isOtherFile
  const title = !isTrue
    ? 'Do not rely on this'
    : isOtherFile
      ? 'This receipt is for another file'
      : isOpen
        ? 'No problems found so far'
        : 'Genuine and unchanged'
  const checks = [...verdict.checks, ...(fileCheck === undefined ? [] : [fileCheck])]
    .map((check) => ({ ...check, look: isRefused && check.outcome === 'true' ? ('beside' as const) : check.outcome }))
    .toSorted((one, other) => Number(other.look === 'false') - Number(one.look === 'false'))
  return (
    <section className="card verdict" aria-label={name}>
      <Notice tone={isRefused ? 'danger' : isOpen ? 'info' : 'success'} title={title}>
        {names[kind]} · {name}
      </Notice>
      <ul className="checks">
        {checks.map((check) => (
          <li key={check.words} className={`check check-${check.look}`}>
            <Icon name={icons[check.look]} />
            <span>{check.words}</span>
          </li>
        ))}
      </ul>
      {isTrue && typeof sha256 === 'string' ? <CompareFile sha256={sha256} onCheck={setFileCheck} /> : undefined}
      {isTrue ? (
        <dl className="verdict-fields">
          {Object.entries(content).map(([field, value]) => (
            <div key={field}>
              <dt>{field.replaceAll('_', ' ')}</dt>
              <dd>
                <Value field={field} value={value} />
              </dd>
            </div>
          ))}
        </dl>
      ) : undefined}
    </section>
  )
}

function Value({ field, value }: { readonly field: string; readonly value: unknown }) {
  if (value === null || value === undefined) return <span className="faint">none</span>
  if (Array.isArray(value)) {
    if (value.length === 0) return <span className="faint">none</span>
    return (
      <span className="badges">
        {value.map(wordsOf).map((words) => (
          <Badge key={words} tone="neutral">
            {words}
          </Badge>
        ))}
      </span>
    )
  }
  if (typeof value === 'string' && /_at$|^from$|^to$/.test(field) && !Number.isNaN(Date.parse(value))) {
    return <When at={value} />
  }
  if (typeof value === 'number') return value.toLocaleString()
  return /^(?:sha256|root|id|tenant|version_of)$/.test(field) ? <code>{String(value)}</code> : String(value)
}

function wordsOf(each: unknown): string {
  if (typeof each !== 'object' || each === null) return String(each)
  return Object.values(each)
    .filter((value) => value !== null)
    .join(', ')
}

function CompareFile({ sha256, onCheck }: { sha256: string; onCheck: (check: Check) => void }) {
  const chooser = useRef<HTMLInputElement>(null)
  const compare = async (file: File) => {
    // Fails for files of about 2 GiB and more.
    const content = await file.arrayBuffer().catch(() => undefined)
    if (content === undefined) {
      const words = `${file.name} could not be read here: compare its SHA-256 by another program`
      onCheck({ outcome: 'open', words })
      return
    }
    const isSame = (await digest(new Uint8Array(content))) === sha256
    onCheck({
      outcome: isSame ? 'true' : 'false',
      words: isSame ? `${file.name} is the file that was received` : `${file.name} is not the file that was received`,
    })
  }
  return (
    <div>
      <Button icon="file" size="small" onPress={() => chooser.current?.click()}>
        Compare with the file
      </Button>
      <input
        ref={chooser}
        type="file"
        hidden
        aria-label="File to compare"
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? []
          if (file !== undefined) void compare(file)
          event.currentTarget.value = ''
        }}
      />
    </div>
  )
}
