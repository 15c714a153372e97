import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { renderAssurance } from './assurance.ts'
import { generatedDocuments } from './generated.ts'
import { readPromises } from './promises.ts'
import { readResults } from './results.ts'

const root = join(import.meta.dirname, '..', '..')

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
  process.stdout.write(`${path}\n`)
}

for (const [path, render] of Object.entries(generatedDocuments)) write(path, render())
const results = readResults()
write(
  '.results/assurance.md',
  renderAssurance(readPromises(), (shownBy) => results.get(shownBy) ?? 'not run'),
)
