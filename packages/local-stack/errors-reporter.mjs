// Writes errors outside tests, which vitest's report omits: for `vitest.json` to `vitest.errors.json`.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

// oxlint-disable-next-line import/no-default-export -- so vitest asks for it
export default class ErrorsReporter {
  #path

  onInit({ config }) {
    const { outputFile } = config
    const report = typeof outputFile === 'string' ? outputFile : outputFile?.json
    if (report === undefined)
      throw new Error('Set --outputFile.json, because the errors are written beside the report.')
    this.#path = report.replace(/(?:\.json)?$/, '.errors.json')
  }

  onTestRunEnd(_modules, errors) {
    const shown = errors.map(({ type, name, message, stack, VITEST_TEST_NAME: during }) => ({
      kind: type ?? name,
      text: stack ?? `${name}: ${message}`,
      during,
    }))
    // If no test has run yet, the folder is missing.
    mkdirSync(dirname(this.#path), { recursive: true })
    writeFileSync(this.#path, JSON.stringify(shown))
  }
}
