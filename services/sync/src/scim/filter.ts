import { uuidSchema } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import { type Compare, type Filter, parse } from 'scim2-parse-filter'
import { type TextMeanings, extractTexts } from './filter-texts.ts'

export interface FilterColumn {
  readonly sql: string
  /** Text is compared case-insensitively, unless the attribute is exact (RFC 7643, section 2.2). */
  readonly kind: 'text' | 'exact' | 'flag' | 'time' | 'id'
}

/** `{}` in `some` is replaced with the condition on one value. */
export interface FilterList {
  readonly some: string
  readonly parts: Readonly<Record<string, FilterColumn>>
}

/** Attributes by path in lower case. */
export interface FilterTable {
  readonly columns: Readonly<Record<string, FilterColumn>>
  readonly lists: Readonly<Record<string, FilterList>>
}

export interface Condition {
  readonly text: string
  readonly values: readonly unknown[]
}

const maxTerms = 20

/**
 * Converts a filter (RFC 7644, section 3.4.2.2) to a condition with parameters from `$first` on. An attribute that only
 * `others` has matches nothing (section 3.4.2.1). Throws `invalidFilter`.
 */
export function toCondition(
  filter: string | undefined,
  table: FilterTable,
  first: number,
  others?: FilterTable,
): Condition {
  if (filter === undefined) return { text: 'true', values: [] }
  const values: unknown[] = []
  const { filter: rest, texts } = extractTexts(filter)
  const meaningsOf = (place: string): TextMeanings => texts[Number(place)] ?? [place]
  let terms = 0
  const bind = (value: unknown): string => {
    values.push(value)
    return `$${first + values.length - 1}`
  }
  const convert = (node: Filter, columns: FilterTable['columns'], lists: FilterTable['lists']): string => {
    terms += 1
    if (terms > maxTerms) throw invalidFilterProblem(`must have at most ${maxTerms} terms`)
    switch (node.op) {
      case 'and':
      case 'or':
        return `(${node.filters.map((each) => convert(each, columns, lists)).join(` ${node.op} `)})`
      case 'not':
        // A comparison with a missing value is false and not unknown (RFC 7644, section 3.4.2.2).
        return `(not coalesce(${convert(node.filter, columns, lists)}, false))`
      case '[]': {
        const list = getOwn(lists, pathOf(node.attrPath))
        if (list === undefined && isOf(others, node.attrPath)) return 'false'
        if (list === undefined) throw unknownAttributeProblem(node.attrPath)
        return list.some.replace('{}', () => convert(node.valFilter, list.parts, {}))
      }
      default: {
        const path = pathOf(node.attrPath)
        const column = getOwn(columns, path)
        if (column !== undefined) return compare(column, node, { bind, meaningsOf })
        // `emails.value eq "x"` and `emails eq "x"` match any of the values.
        const [name = '', part = 'value'] = path.split('.')
        const list = getOwn(lists, name)
        const inner = list === undefined ? undefined : getOwn(list.parts, part)
        if ((list === undefined || inner === undefined) && isOf(others, node.attrPath)) return 'false'
        if (list === undefined || inner === undefined) throw unknownAttributeProblem(node.attrPath)
        return list.some.replace('{}', () => compare(inner, node, { bind, meaningsOf }))
      }
    }
  }
  return { text: convert(parseFilter(rest), table.columns, table.lists), values }
}

/**
 * `emails[type eq "work"].value eq "x"` must match one value that fulfils both (RFC 7644, section 3.5.2); the parser
 * would split it.
 */
const valuePath = /\[([^[\]]*)\]\.(\w+)(\s+(?:pr\b|[a-z]{2}\s+(?:"\d+"|[\w.+-]+)))/gi

function parseFilter(filter: string): Filter {
  try {
    return parse(filter.replaceAll(valuePath, '[($1) and $2$3]'))
  } catch (cause) {
    throw invalidFilterProblem('cannot be read (RFC 7644 section 3.4.2.2)', cause)
  }
}

/** Attribute names are case-insensitive (RFC 7643, section 2.1). */
function pathOf(attrPath: string): string {
  const at = attrPath.lastIndexOf(':')
  return attrPath.slice(at + 1).toLowerCase()
}

function isOf(table: FilterTable | undefined, attrPath: string): boolean {
  if (table === undefined) return false
  const path = pathOf(attrPath)
  const [name = '', part = 'value'] = path.split('.')
  const list = getOwn(table.lists, name)
  return getOwn(table.columns, path) !== undefined || (list !== undefined && getOwn(list.parts, part) !== undefined)
}

type Comparison = Compare | Extract<Filter, { op: 'pr' }>

interface Values {
  bind(value: unknown): string
  meaningsOf(place: string): TextMeanings
}

function compare({ sql, kind }: FilterColumn, node: Comparison, { bind, meaningsOf }: Values): string {
  const { op } = node
  if (op === 'pr') return `(${sql} is not null)`
  const given = 'compValue' in node ? node.compValue : null
  const meanings: TextMeanings = typeof given === 'string' ? meaningsOf(given) : [String(given)]
  const [value] = meanings
  if (given === null) {
    if (op === 'eq') return `(${sql} is null)`
    if (op === 'ne') return `(${sql} is not null)`
    throw invalidFilterProblem('can compare null only with eq or ne')
  }
  switch (kind) {
    case 'flag': {
      const flag = getOwn(flags, value.toLowerCase())
      if (flag === undefined) throw invalidFilterProblem('must compare a boolean with true or false')
      if (op === 'eq') return `(${sql} = ${bind(flag)}::boolean)`
      if (op === 'ne') return `(${sql} is distinct from ${bind(flag)}::boolean)`
      break
    }
    case 'time': {
      const time = new Date(value)
      // PostgreSQL rejects the year 0 and years with more than four digits.
      if (Number.isNaN(time.getTime()) || !/^(?!0000)\d{4}-/.test(time.toISOString())) {
        throw invalidFilterProblem('must compare a time with a time of the years 1 to 9999')
      }
      const sign = signs[op]
      if (sign !== undefined) return `(${sql} ${sign} ${bind(time.toISOString())}::timestamptz)`
      break
    }
    case 'id': {
      // As a UUID, so that an index serves it.
      const id = uuidSchema.safeParse(value.toLowerCase()).data
      if (op === 'eq') return id === undefined ? 'false' : `(${sql} = ${bind(id)}::uuid)`
      break
    }
    case 'text':
    case 'exact': {
      const [left, right] = kind === 'text' ? [`lower(${sql})`, 'lower({})'] : [sql, '{}']
      const texts = meanings.map((text) => right.replace('{}', () => `${bind(text)}::text`))
      const any = (condition: (text: string) => string) => `(${texts.map(condition).join(' or ')})`
      const sign = signs[op]
      if (op === 'eq') return `(${left} in (${texts.join(', ')}))`
      if (op === 'ne') return `(${sql} is null or ${left} not in (${texts.join(', ')}))`
      if (sign !== undefined) return `(${left} ${sign} ${texts[0]})`
      if (op === 'co') return any((text) => `strpos(${left}, ${text}) > 0`)
      if (op === 'sw') return any((text) => `starts_with(${left}, ${text})`)
      if (op === 'ew') return any((text) => `right(${left}, char_length(${text})) = ${text}`)
      break
    }
    default:
      return kind satisfies never
  }
  throw invalidFilterProblem(`cannot use ${op} with this attribute`)
}

const flags: Readonly<Record<string, boolean>> = { true: true, false: false }

const signs: Partial<Record<string, string>> = { eq: '=', gt: '>', ge: '>=', lt: '<', le: '<=' }

/** Own properties only: `constructor` must not match. */
function getOwn<Value>(table: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}

function unknownAttributeProblem(attrPath: string) {
  return invalidFilterProblem(`${attrPath.slice(0, 80)} is not an attribute for filters`)
}

function invalidFilterProblem(detail: string, cause?: unknown) {
  const errors = [{ parameter: 'filter', code: 'invalidFilter', detail }]
  return problem('bad_request', { detail: 'The filter cannot be used.', errors, cause })
}
