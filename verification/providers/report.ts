export interface Report {
  check(what: string, isTrue: boolean, seen?: string): void
  readonly passed: number
  readonly failed: number
}

export function createReport(provider: string): Report {
  const count = { passed: 0, failed: 0 }
  return {
    check: (what, isTrue, seen) => {
      count[isTrue ? 'passed' : 'failed'] += 1
      const detail = seen === undefined ? '' : ` (${seen})`
      process.stdout.write(`${provider}: ${isTrue ? 'ok' : 'FAILED'}: ${what}${detail}\n`)
    },
    get passed() {
      return count.passed
    },
    get failed() {
      return count.failed
    },
  }
}
