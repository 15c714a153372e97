import { logCheckpointSchema, problemSchema } from '@postern/contracts'
import { type ExportReport, verifyExport } from '@postern/log-chain'
import { contradicted, usage } from '../failure.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { readLines, readWholeText } from '../text-file.ts'

type KeySet = NonNullable<Parameters<typeof verifyExport>[2]>

/** `verify-log`: reads the three files and nothing else, so that it works without a network and without our word. */
export async function verifyLog(
  context: CommandContext,
  path: string,
  options: OutputOptions & { readonly checkpoints: string; readonly jwks: string },
): Promise<void> {
  const checkpoints = checkpointsOf(options.checkpoints, await readWholeText(options.checkpoints))
  // A chain alone can be written anew from its first entry on: without a checkpoint there is nothing to hold it against.
  if (checkpoints.length === 0) throw usage(`${options.checkpoints} holds no checkpoint`)
  const keys = keySetOf(await readWholeText(options.jwks))
  if (keys === undefined) throw usage(`${options.jwks} is no JWKS: an object with "keys", as the API answers it`)
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
  // Whoever can write to the database can chain entries anew: those behind the last checkpoint nobody has vouched for yet.
  const unsigned = report.entries - Math.max(0, ...signed)
  const counts = { entries: report.entries, unsigned, findings: report.findings, checkpoints: checkpoints.length }
  if (!report.isIntact) {
    const untold = Math.max(0, entries.length - maxTold) + report.moreFaults
    const line = [
      ...entries.slice(0, maxTold).map(sentenceOf),
      ...(untold === 0 ? [] : [`and ${untold} lines more of ${path}`]),
      ...faults.slice(entries.length).map(sentenceOf),
    ].join('; ')
    throw contradicted(line, { faults, more_faults: report.moreFaults, ...counts, root: report.root })
  }
  if (options.json) printJson(context, { is_intact: true, ...counts, root: report.root })
  else {
    const behind = unsigned === 0 ? '' : `; the last ${unsigned} are behind every checkpoint: chained, and not signed`
    context.print(
      `true: ${counts.entries} entries of ${counts.findings} findings, ${counts.checkpoints} checkpoints${behind}`,
    )
  }
}

/** Entries that the line for people names; the JSON has a hundred. */
const maxTold = 10

function sentenceOf({ file, line, problem }: { file: string; line: number; problem: string }): string {
  return `${file} line ${line}: ${problem}`
}

const entryFaults: Readonly<Record<ExportReport['faults'][number]['problem'], string>> = {
  form: 'is no entry of the log',
  content: 'the entry is not what was hashed',
  link: 'the entry does not continue the one before it',
  order: 'the entry is not in its place: one is missing, added or moved',
}

const checkpointFaults: Readonly<Record<Exclude<ExportReport['checkpoints'][number]['outcome'], 'agrees'>, string>> = {
  contradicts: 'the log up to here is another than the one that was signed',
  'beyond-export':
    'the export ends before this checkpoint: entries are missing, or it was made before the checkpoint was',
  'not-signed-by-these-keys': 'is no checkpoint that these keys have signed',
}

/** The form of a compact JWS (RFC 7515, section 7.1), whatever is in it. */
const jwsPattern = /^[\w-]+\.[\w-]+\.[\w-]*$/

/** One checkpoint a line: the JWS itself, or what the API answered with it. A file with one of these may have it indented. */
function checkpointsOf(path: string, text: string): { jws: string; line: number }[] {
  const only = jwsOf(text.trim())
  if (only !== undefined) return [{ jws: only, line: 1 }]
  return text.split('\n').flatMap((line, index) => {
    const trimmed = line.trim()
    if (trimmed === '') return []
    const jws = jwsOf(trimmed)
    if (jws === undefined) {
      throw usage(`${path} line ${index + 1} is no checkpoint: one a line is read, its JWS or what the API answered`)
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

/** Passes the lines on if they can be an export. Throws a usage failure that says what the file is if they cannot. */
async function* assertExport(path: string, lines: AsyncIterable<string>): AsyncGenerator<string> {
  let isFirst = true
  for await (const line of lines) {
    if (isFirst && line.trim() !== '') {
      isFirst = false
      const form = otherForm(line.trim())
      if (form !== undefined) throw usage(`${path} ${form}`)
    }
    yield line
  }
}

const howToExport = 'Export the log with the header `Accept: application/x-ndjson`'

/** What a file is that certainly is no export of the log, by its first line that is not blank. */
function otherForm(line: string): string | undefined {
  if (line.startsWith('[')) return `is a page of JSON, not the whole log. ${howToExport}`
  if (line === '{')
    return 'is JSON over several lines. Each entry must be on a line of its own: `jq -c . FILE` writes it so'
  if (line.startsWith('HTTP/')) return 'begins with the headers of the answer. Save the body only (curl without -i)'
  if (line.startsWith('<')) return `is a web page, not an export. Check the URL. ${howToExport}`
  if (/^"?[a-z_]+"?[,;\t]/.test(line)) return `is a table (CSV). ${howToExport}`
  const problem = problemSchema.safeParse(parseJson(line)).data
  return problem && `holds an error of the API: ${problem.detail ?? problem.title} (${problem.code})`
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
