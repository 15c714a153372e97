import type { SourceLimits } from './types.ts'

const mebibyte = 1024 * 1024

export const defaultLimits: SourceLimits = {
  maxBytes: 2048 * mebibyte,
  maxRows: 5_000_000,
  maxPageBytes: 32 * mebibyte,
  maxPages: 100_000,
  maxColumns: 500,
  maxValueLength: 100_000,
  maxDepth: 32,
  maxDurationMs: 3_600_000,
  maxSilenceMs: 60_000,
}
