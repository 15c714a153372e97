import { useState } from 'react'
import { Radio, RadioGroup } from 'react-aria-components/RadioGroup'
import { Label } from 'react-aria-components/Label'
import { createAttempt } from '../api/attempt.ts'
import { type Connector, startRun } from '../api/sync.ts'
import { navigate } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'
import { FileField } from './file-field.tsx'
import { needsFile } from './words.ts'

const modes = [
  { value: 'dry_run', title: 'Try it', help: 'Shows what would change without changing anything.' },
  { value: 'apply', title: 'Run it', help: 'Applies the changes unless they exceed the limits of the connector.' },
] as const

interface Props {
  readonly connector: Connector
  readonly onClose: () => void
}

export function RunDialog({ connector, onClose }: Props) {
  const [mode, setMode] = useState<(typeof modes)[number]['value']>('dry_run')
  const [file, setFile] = useState<File>()
  const [isMissing, setMissing] = useState(false)
  const change = useChange()
  const { isBusy, failure } = change
  const [attempt] = useState(createAttempt)
  const isUploaded = needsFile(connector)

  const start = async () => {
    setMissing(isUploaded && file === undefined)
    if (isUploaded && file === undefined) return
    await change.run(async (signal) => {
      const wanted = [mode, file?.name, file?.size, file?.lastModified]
      const run = await attempt.carryOut(wanted, async (id) => await startRun(connector.id, { mode, file }, id, signal))
      navigate(`/connectors/runs/${run.id}`)
    })
  }

  return (
    <Dialog
      title={`Run ${connector.name}`}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            look="primary"
            isBusy={isBusy}
            onPress={() => {
              void start()
            }}
          >
            Start
          </Button>
        </>
      }
    >
      {failure === undefined ? undefined : (
        <Failure error={failure} title="The run was not started" unsure="It is not known whether the run was started" />
      )}
      <Overdue
        change={change}
        mayBe={file === undefined ? 'The run may already have started.' : 'A large file takes a while to send.'}
      />
      <RadioGroup
        className="field"
        value={mode}
        onChange={(value) => setMode(modes.find((each) => each.value === value)?.value ?? 'dry_run')}
      >
        <Label>What should the run do?</Label>
        <div className="run-modes">
          {modes.map(({ value, title, help }) => (
            <Radio key={value} value={value} className="choice period">
              <span className="choice-title">{title}</span>
              <span className="choice-help">{help}</span>
            </Radio>
          ))}
        </div>
      </RadioGroup>
      {isUploaded ? (
        <FileField
          file={file}
          onFile={(chosen) => {
            setFile(chosen)
            setMissing(false)
          }}
          isMissing={isMissing}
        />
      ) : undefined}
    </Dialog>
  )
}
