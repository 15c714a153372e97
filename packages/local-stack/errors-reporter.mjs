// Writes the errors outside every test beside the report of vitest, which leaves them out: for `vitest.json` to `vitest.errors.json`.
// `.ci/summary.mjs` names them once more at the end.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

// oxlint-disable-next-line import/no-default-export -- so vitest asks for it
export default class ErrorsReporter {
  #path

  onInit({ config }) {
    const { outputFile } = config
    const report = typeof outputFile === 'string' ? outputFile : outputFile?.json
    if (report === undefined)
      throw new Error('the errors have their place beside the report: --outputFile.json is missing')
    this.#path = report.replace(/(?:\.json)?$/, '.errors.json')
  }

  onTestRunEnd(_modules, errors) {
    const shown = errors.map(({ type, name, message, stack, VITEST_TEST_NAME: during }) => ({
      kind: type ?? name,
      text: stack ?? `${name}: ${message}`,
      during,
    }))
    // As the report itself, which may come later: where nothing has run yet the folder is not there.
    mkdirSync(dirname(this.#path), { recursive: true })
    writeFileSync(this.#path, JSON.stringify(shown))
  }
}
