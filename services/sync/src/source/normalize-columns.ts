import { DuplicateNameError, normalizeTexts } from '@postern/service-kit'

type Values = Readonly<Record<string, unknown>>

interface NormalizedColumns {
  readonly values: Values
  readonly faults: readonly { readonly column: string; readonly code: string; readonly message: string }[]
}

const twice = {
  code: 'duplicate_key',
  message: 'is repeated in two Unicode forms, or contains such a name: make the source send it once',
}

/** Normalizes names and texts to NFC. Undefined if nothing changes. */
export function normalizeColumns(given: Values): NormalizedColumns | undefined {
  try {
    if (normalizeTexts(given) === given) return undefined
  } catch (error) {
    if (!(error instanceof DuplicateNameError)) throw error
  }
  const faults: NormalizedColumns['faults'][number][] = []
  const values = new Map<string, unknown>()
  for (const [name, value] of Object.entries(given)) {
    const column = name.normalize('NFC')
    try {
      if (values.has(column)) throw new DuplicateNameError([name])
      values.set(column, normalizeTexts(value))
    } catch (error) {
      if (!(error instanceof DuplicateNameError)) throw error
      faults.push({ column, ...twice })
    }
  }
  for (const { column } of faults) values.delete(column)
  return { values: Object.fromEntries(values), faults }
}
