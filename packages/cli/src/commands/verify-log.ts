import { logCheckpointSchema, problemSchema } from '@postern/contracts'
import { type ExportReport, verifyExport } from '@postern/log-chain'
import { unsuccessfulError, usageError } from '../cli-error.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { readLines, readWholeText } from '../text-file.ts'

type KeySet = NonNullable<Parameters<typeof verifyExport>[2]>

/** Reads only the three files, so that it works offline. */
export async function verifyLog(
  context: CommandContext,
  path: string,
  options: OutputOptions & { readonly checkpoints: string; readonly jwks: string },
): Promise<void> {
  const checkpoints = checkpointsOf(options.checkpoints, await readWholeText(options.checkpoints))
  // Anyone can compute a new chain; only a signed checkpoint proves its entries.
  if (checkpoints.length === 0) throw usageError(`${options.checkpoints} contains no checkpoint`)
  const keys = keySetOf(await readWholeText(options.jwks))
  if (keys === undefined)
    throw usageError(`${options.jwks} is not a JWKS. Save the response of GET /api/v1/remediation-log/keys`)
  const report = await verifyExport(
    assertExport(path, readLines(path)),
    checkpoints.map(({ jws }) => jws),
    keys,
  )
  const entries = report.faults.map(({ line, problem }) => ({ file: path, line, problem: entryFaults[problem] }))
  const faults = [
    ...entries,
    ...report.checkpoints.flatMap(({ outcome, checkpoint }, index) =>
      outcome === 'agrees'
        ? []
        : [
            {
              file: options.checkpoints,
              line: checkpoints[index]?.line ?? 0,
              problem: `${checkpointFaults[outcome]}${checkpoint === undefined ? '' : ` (entry ${checkpoint.position})`}`,
            },
          ],
    ),
  ]
  const signed = report.checkpoints.flatMap(({ outcome, checkpoint }) =>
    outcome === 'agrees' && checkpoint !== undefined ? [checkpoint.position] : [],
  )
  // A database administrator could rewrite the entries after the last checkpoint.
  const unsigned = report.entries - Math.max(0, ...signed)
  const counts = { entries: report.entries, unsigned, findings: report.findings, checkpoints: checkpoints.length }
  if (!report.isIntact) {
    const unlisted = Math.max(0, entries.length - maxListed) + report.moreFaults
    const line = [
      ...entries.slice(0, maxListed).map(sentenceOf),
      ...(unlisted === 0 ? [] : [`and ${unlisted} more lines of ${path}`]),
      ...faults.slice(entries.length).map(sentenceOf),
    ].join('; ')
    throw unsuccessfulError('log_contradicted', line, {
      faults,
      more_faults: report.moreFaults,
      ...counts,
      root: report.root,
    })
  }
  if (options.json) printJson(context, { is_intact: true, ...counts, root: report.root })
  else {
    const behind = unsigned === 0 ? '' : `; the last ${unsigned} are chained but not yet signed by a checkpoint`
    context.print(
      `verified: ${counts.entries} entries of ${counts.findings} findings, ${counts.checkpoints} checkpoints${behind}`,
    )
  }
}

/** Lines in the message. The JSON has 100. */
const maxListed = 10

function sentenceOf({ file, line, problem }: { file: string; line: number; problem: string }): string {
  return `${file} line ${line}: ${problem}`
}

const entryFaults: Readonly<Record<ExportReport['faults'][number]['problem'], string>> = {
  form: 'is not an entry of the log',
  content: 'the entry does not match its hash',
  link: 'the entry does not continue the previous one',
  order: 'an entry was removed, added or moved before this one',
}

const checkpointFaults: Readonly<Record<Exclude<ExportReport['checkpoints'][number]['outcome'], 'agrees'>, string>> = {
  contradicts: 'the log up to here differs from the signed log',
  'beyond-export':
    'the export ends before this checkpoint: entries are missing, or the export is older than the checkpoint',
  'not-signed-by-these-keys': 'is not a checkpoint signed by these keys',
}

/** RFC 7515 §7.1, with any content. */
const jwsPattern = /^[\w-]+\.[\w-]+\.[\w-]*$/

/** One checkpoint per line: a JWS or an API response. A single response may be indented. */
function checkpointsOf(path: string, text: string): { jws: string; line: number }[] {
  const only = jwsOf(text.trim())
  if (only !== undefined) return [{ jws: only, line: 1 }]
  return text.split('\n').flatMap((line, index) => {
    const trimmed = line.trim()
    if (trimmed === '') return []
    const jws = jwsOf(trimmed)
    if (jws === undefined) {
      throw usageError(`${path} line ${index + 1} is not a checkpoint. Put one on each line: a JWS or an API response`)
    }
    return [{ jws, line: index + 1 }]
  })
}

function jwsOf(text: string): string | undefined {
  return jwsPattern.test(text) ? text : logCheckpointSchema.safeParse(parseJson(text)).data?.jws
}

function keySetOf(text: string): KeySet | undefined {
  const value = parseJson(text)
  return isKeySet(value) ? value : undefined
}

function isKeySet(value: unknown): value is KeySet {
  if (typeof value !== 'object' || value === null || !('keys' in value) || !Array.isArray(value.keys)) return false
  return value.keys.every((key: unknown) => typeof key === 'object' && key !== null && 'kty' in key)
}

/** Throws a CliError that says what the file is, if it is not an export. */
async function* assertExport(path: string, lines: AsyncIterable<string>): AsyncGenerator<string> {
  let isFirst = true
  for await (const line of lines) {
    if (isFirst && line.trim() !== '') {
      isFirst = false
      const form = describeOtherForm(line.trim())
      if (form !== undefined) throw usageError(`${path} ${form}`)
    }
    yield line
  }
}

const howToExport = 'Export the log with the header `Accept: application/x-ndjson`'

/** Returns undefined if the first line can be from an export. */
function describeOtherForm(line: string): string | undefined {
  if (line.startsWith('[')) return `is a page of JSON, not the whole log. ${howToExport}`
  if (line === '{')
    return 'is JSON over several lines, but each entry must be on one line. Convert it with `jq -c . FILE`'
  if (line.startsWith('HTTP/')) return 'begins with response headers. Save only the body (curl without -i)'
  if (line.startsWith('<')) return `is a web page, not an export. Check the URL. ${howToExport}`
  if (/^"?[a-z_]+"?[,;\t]/.test(line)) return `is a table (CSV). ${howToExport}`
  const problem = problemSchema.safeParse(parseJson(line)).data
  return problem && `contains an error of the API: ${problem.detail ?? problem.title} (${problem.code})`
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
