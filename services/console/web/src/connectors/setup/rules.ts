import type { MappingRule } from '../../api/sync.ts'

export const transformChoices = [
  { value: 'none', label: 'None' },
  { value: 'map', label: 'Translate values' },
  { value: 'lower', label: 'Lower case' },
  { value: 'upper', label: 'Upper case' },
  { value: 'number', label: 'To a number' },
  { value: 'boolean', label: 'To yes or no' },
  { value: 'split', label: 'Split into a list' },
  { value: 'YYYY-MM-DD', label: 'Date, 2026-12-31' },
  { value: 'DD.MM.YYYY', label: 'Date, 31.12.2026' },
  { value: 'DD/MM/YYYY', label: 'Date, 31/12/2026' },
  { value: 'MM/DD/YYYY', label: 'Date, 12/31/2026' },
  { value: 'YYYYMMDD', label: 'Date, 20261231' },
] as const

type TransformChoice = (typeof transformChoices)[number]['value']
type Transforms = NonNullable<MappingRule['transforms']>

export interface RuleDraft {
  /** Identifies the rule in the form, so that deleting one above does not change it. */
  readonly id: string
  readonly target: string
  readonly from: 'source' | 'constant'
  readonly text: string
  /** Used if the column is empty. */
  readonly fallback: string
  /** `kept`: a transform that the form cannot show. */
  readonly transform: TransformChoice | 'kept'
  /** For `map`: one value per line, such as `Proc = process`. */
  readonly pairs: string
  /** For `split`. */
  readonly separator: string
  readonly original: MappingRule | undefined
}

export function newRule(target = ''): RuleDraft {
  return {
    id: crypto.randomUUID(),
    target,
    from: 'source',
    text: '',
    fallback: '',
    transform: 'none',
    pairs: '',
    separator: ';',
    original: undefined,
  }
}

export function ruleDraftOf(rule: MappingRule): RuleDraft {
  const { target, source, constant, default: fallback, transforms } = rule
  const only = transforms?.length === 1 ? transforms[0] : undefined
  return {
    ...newRule(target),
    from: source === undefined ? 'constant' : 'source',
    text: source ?? String(constant ?? ''),
    fallback: fallback === undefined ? '' : String(fallback),
    transform: transformOf(transforms),
    pairs:
      only?.kind === 'map'
        ? Object.entries(only.values)
            .map(([one, other]) => `${one} = ${other}`)
            .join('\n')
        : '',
    separator: only?.kind === 'split' ? only.separator : ';',
    original: rule,
  }
}

function transformOf(transforms: Transforms | undefined): RuleDraft['transform'] {
  if (transforms === undefined || transforms.length === 0) return 'none'
  const [first] = transforms
  if (first === undefined || transforms.length > 1) return 'kept'
  switch (first.kind) {
    case 'date':
      return first.format
    case 'trim':
      return 'none'
    case 'map':
      // A line cannot contain these.
      return Object.entries(first.values).some(([one, other]) => /[=\n]/.test(one) || /\n/.test(other)) ? 'kept' : 'map'
    default:
      return first.kind
  }
}

export function ruleOf(draft: RuleDraft): MappingRule {
  const { target, from, text, fallback, original } = draft
  const transforms = transformsOf(draft)
  return {
    target: target.trim(),
    ...(from === 'source' ? { source: text.trim() } : { constant: keepOriginal(original?.constant, text.trim()) }),
    ...(fallback.trim() === '' ? {} : { default: keepOriginal(original?.default, fallback.trim()) }),
    ...(transforms.length === 0 ? {} : { transforms }),
  }
}

function keepOriginal(original: string | number | boolean | undefined, text: string): string | number | boolean {
  return original !== undefined && String(original) === text ? original : text
}

function transformsOf({ transform, pairs, separator, original }: RuleDraft): Transforms {
  switch (transform) {
    case 'none':
      return []
    case 'kept':
      return original?.transforms ?? []
    case 'map':
      return [{ kind: 'map', values: Object.fromEntries(pairs.split('\n').flatMap(pairOf)) }]
    case 'split':
      return [{ kind: 'split', separator: separator === '' ? ';' : separator }]
    case 'lower':
    case 'upper':
    case 'number':
    case 'boolean':
      return [{ kind: transform }]
    default:
      return [{ kind: 'date', format: transform }]
  }
}

function pairOf(line: string): readonly (readonly [string, string])[] {
  const at = line.indexOf('=')
  return at === -1 ? [] : [[line.slice(0, at).trim(), line.slice(at + 1).trim()]]
}
