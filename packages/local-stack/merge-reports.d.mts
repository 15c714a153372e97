/** See merge-reports.mjs. */
export function mergeReports(folder: string, names: { readonly from: string; readonly into: string }): void
