import type { Logger } from '@postern/service-kit'
import type { ScanOutcome } from './scanner.ts'

export function warnOfQuarantine(
  log: Logger,
  requestId: string,
  files: readonly { readonly body: { readonly sha256: string; readonly scan: ScanOutcome } }[],
): void {
  for (const { body } of files) {
    if (body.scan.result !== 'infected') continue
    const { malware } = body.scan
    log.warn({ event: 'file_quarantined', request_id: requestId, sha256: body.sha256, malware })
  }
}
