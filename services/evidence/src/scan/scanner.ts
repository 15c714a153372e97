export type ScanOutcome =
  | { readonly result: 'not_configured' }
  | {
      /** `limits_exceeded`: not scanned completely, so it is unknown. */
      readonly result: 'clean' | 'limits_exceeded'
      readonly scanner: string
    }
  | { readonly result: 'infected'; readonly malware: string; readonly scanner: string }

export interface Scanner {
  /** End it with `finish` or `abandon`. Rejects with ScannerUnavailableError. */
  begin(): Promise<Scan>
}

export interface Scan {
  write(chunk: Uint8Array): Promise<void>
  /** A missing answer never means clean: rejects with ScannerUnavailableError. */
  finish(): Promise<ScanOutcome>
  abandon(): void
}

export class ScannerUnavailableError extends Error {}

export const noScanner: Scanner = {
  begin: async () => ({
    write: async () => undefined,
    finish: async () => ({ result: 'not_configured' }),
    abandon: () => undefined,
  }),
}
