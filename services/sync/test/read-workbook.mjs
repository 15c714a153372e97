// Reads the workbook that the first argument names, and prints how many rows it has.
import { createReadStream } from 'node:fs'
import { csv } from '../src/source/csv/csv.ts'
import { defaultLimits } from '../src/source/limits.ts'

let rows = 0
let last
const context = {
  config: {},
  secrets: {},
  limits: defaultLimits,
  signal: new AbortController().signal,
  upload: createReadStream(process.argv[2]),
}
for await (const item of csv.read(context)) {
  if (item.kind === 'texts') continue
  rows += 1
  last = item.values?.id
}
process.stdout.write(JSON.stringify({ rows, last }))
