// `npm run assurance`: writes ASSURANCE.md, and with the results of the last run of the tests .results/assurance.md.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { renderAssurance } from './document.ts'
import { readPromises } from './promises.ts'
import { readResults } from './results.ts'

const root = join(import.meta.dirname, '..', '..')
const promises = readPromises()
writeFileSync(join(root, 'ASSURANCE.md'), renderAssurance(promises))
const results = readResults()
const path = join(root, '.results', 'assurance.md')
mkdirSync(dirname(path), { recursive: true })
writeFileSync(
  path,
  renderAssurance(promises, (shownBy) => results.get(shownBy) ?? 'not run'),
)
process.stdout.write(`ASSURANCE.md: ${promises.length} promises; with ${results.size} results: .results/assurance.md\n`)
