import { useRef } from 'react'
import { Button } from '../ui/button.tsx'

interface Props {
  readonly file: File | undefined
  readonly onFile: (file: File | undefined) => void
  readonly isMissing: boolean
}

export function FileField({ file, onFile, isMissing }: Props) {
  const chooser = useRef<HTMLInputElement>(null)
  return (
    <div className="field">
      <span className="react-aria-Label">File</span>
      <div className="file-row">
        <Button icon="upload" onPress={() => chooser.current?.click()}>
          {file === undefined ? 'Choose a file' : 'Choose another'}
        </Button>
        <span className="one-line">{file?.name ?? 'A workbook (.xlsx), or text with separators (.csv)'}</span>
      </div>
      <input
        ref={chooser}
        type="file"
        hidden
        aria-label="File to read"
        accept=".csv,.tsv,.txt,.xlsx,text/csv"
        onChange={(event) => onFile(event.currentTarget.files?.[0])}
      />
      {isMissing ? (
        <span className="field-error" role="alert">
          Choose the file to import
        </span>
      ) : undefined}
    </div>
  )
}
