import { useState } from 'react'
import { type Connector, type ConnectorTest, testConnector } from '../api/sync.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { useChange } from '../ui/use-change.ts'
import { FileField } from './file-field.tsx'
import { rememberColumns } from './seen-columns.ts'
import { needsFile } from './words.ts'

export function TestCard({ connector }: { readonly connector: Connector }) {
  const testing = useChange()
  const [outcome, setOutcome] = useState<ConnectorTest>()
  const [file, setFile] = useState<File>()
  const [isMissing, setMissing] = useState(false)
  const isUploaded = needsFile(connector)

  const test = async () => {
    setMissing(isUploaded && file === undefined)
    if (isUploaded && file === undefined) return
    setOutcome(undefined)
    await testing.run(async (signal) => {
      const answer = await testConnector(connector.id, file, signal)
      rememberColumns(connector.id, [...new Set(answer.rows.flatMap(({ values }) => Object.keys(values)))])
      setOutcome(answer)
    })
  }

  return (
    <section className="card" aria-labelledby="test-title">
      <h2 id="test-title">Try it</h2>
      <p className="help">Reads up to 20 rows and shows the result. No data is stored.</p>
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
      <div>
        <Button
          icon="eye"
          isBusy={testing.isBusy}
          onPress={() => {
            void test()
          }}
        >
          Test
        </Button>
      </div>
      <Overdue
        change={testing}
        mayBe="A slow source takes up to half a minute. No data is stored."
        advice="If it fails, check the address and the credentials of the source."
      />
      {testing.failure === undefined ? undefined : (
        <Failure error={testing.failure} title="The source could not be read" />
      )}
      {outcome === undefined ? undefined : <Outcome test={outcome} />}
    </section>
  )
}

function Outcome({ test: { rows } }: { readonly test: ConnectorTest }) {
  const faulty = rows.filter(({ errors }) => errors.length > 0).length
  if (rows.length === 0) {
    return (
      <Notice tone="warning" title="There are no rows" isNews>
        The source could be read but is empty.
      </Notice>
    )
  }
  return (
    <>
      <Notice
        tone={faulty === 0 ? 'success' : 'warning'}
        title={faulty === 0 ? 'The source was read, and its rows fit' : `${faulty} of ${rows.length} rows do not fit`}
        isNews
      >
        {faulty === 0
          ? `${rows.length === 1 ? 'One row was' : `${rows.length} rows were`} read.`
          : 'The rows below say why. If a field has another name in the source, map it under Fields.'}
      </Notice>
      <ol className="changes">
        {rows.map((row) => (
          <li key={row.row} className="change">
            <p className="change-head">
              <Badge tone={row.errors.length === 0 ? 'success' : 'danger'}>
                {row.errors.length === 0 ? 'Fits' : 'Does not fit'}
              </Badge>
              <span className="faint">Row {row.row}</span>
            </p>
            {row.errors.length === 0 ? undefined : (
              <ul className="field-error">
                {row.errors.map(({ field, code, message }) => (
                  <li key={`${field} ${code} ${message}`}>
                    {field === null ? '' : `${field}: `}
                    {message}
                  </li>
                ))}
              </ul>
            )}
            {row.mapped === null ? undefined : <Members of={row.mapped} />}
            <details className="as-read">
              <summary>Row of the source</summary>
              <Members of={row.values} />
            </details>
          </li>
        ))}
      </ol>
    </>
  )
}

function Members({ of }: { readonly of: Readonly<Record<string, unknown>> }) {
  return (
    <dl className="change-fields">
      {Object.entries(of).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
        </div>
      ))}
    </dl>
  )
}
