import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ESTree, type VisitorObject, Visitor, parseSync } from 'vite'

const root = join(import.meta.dirname, '..', '..')

export interface Message {
  readonly path: string
  readonly name?: string
  readonly text: string
}

/** Interpolations become `{…}`. */
export function listDetails(): Message[] {
  return readSources('{packages/service-kit,services/*}/src/**/*.ts').flatMap(({ path, source, program }) => {
    const messages: Message[] = []
    const codes: string[] = []
    visit(program, {
      CallExpression: ({ callee, arguments: [first] }) => {
        const isProblem = callee.type === 'Identifier' && callee.name === 'problem'
        if (isProblem && first?.type === 'Literal') codes.push(String(first.value))
        else codes.push(codes.at(-1) ?? '')
      },
      'CallExpression:exit': () => {
        codes.pop()
      },
      Property: ({ key, value }) => {
        if (key.type !== 'Identifier' || key.name !== 'detail') return
        for (const text of textsOf(value, source)) messages.push({ path, name: codes.at(-1) ?? '', text })
      },
    })
    return messages
  })
}

/** Lists texts that begin with "must", a modal verb, or "is not". */
export function listFieldErrors(): Message[] {
  return listTexts('{packages/contracts,packages/service-kit,services/*}/src/**/*.ts').filter(({ text }) =>
    /^(?:must|would|cannot|is not|is missing|has to)\b/.test(text),
  )
}

/** Lists texts without repeats within a file. */
export function listTexts(pattern: string): Message[] {
  return readSources(pattern).flatMap(({ path, source, program }) => {
    const texts = new Set<string>()
    let isClass = false
    const add = (text: string): void => {
      if (!isClass && isProse(text)) texts.add(oneLine(text))
    }
    visit(program, {
      JSXAttribute: ({ name }) => {
        isClass = name.type === 'JSXIdentifier' && name.name === 'className'
      },
      'JSXAttribute:exit': () => {
        isClass = false
      },
      Literal: ({ value }) => {
        if (typeof value === 'string') add(value)
      },
      TemplateLiteral: (template) => {
        add(textOf(template, source))
      },
      JSXText: ({ value }) => {
        add(value)
      },
    })
    return [...texts].map((text) => ({ path, text }))
  })
}

/** Three words, and no SQL, selector, style, page, header or type. */
function isProse(text: string): boolean {
  const words = text.match(/[A-Za-z’']{2,}/g) ?? []
  return (
    words.length >= 3 &&
    / [a-z]{2,} /.test(` ${text} `) &&
    !/^\s*(?:select|insert|update|delete|with|default-src|@media)\b/.test(text) &&
    !/^(?:<!doctype|public, |button |\[)/.test(text) &&
    !/[{;=]\s*$/.test(text)
  )
}

function textsOf(node: ESTree.Node, source: string): string[] {
  const texts: string[] = []
  if (node.type === 'Literal' && typeof node.value === 'string') texts.push(oneLine(node.value))
  else if (node.type === 'TemplateLiteral') texts.push(textOf(node, source))
  else if (node.type === 'ConditionalExpression') {
    texts.push(...textsOf(node.consequent, source), ...textsOf(node.alternate, source))
  } else if (node.type === 'LogicalExpression') texts.push(...textsOf(node.right, source))
  return texts
}

function textOf({ quasis, expressions }: ESTree.TemplateLiteral, source: string): string {
  return oneLine(
    quasis
      .map(({ value }, index) => {
        const expression = expressions[index]
        if (expression === undefined) return value.cooked ?? ''
        const name = source.slice(expression.start, expression.end)
        return `${value.cooked ?? ''}{${/^[\w.]+$/.test(name) ? name : '…'}}`
      })
      .join(''),
  )
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}

function visit(program: ESTree.Program, visitor: VisitorObject): void {
  new Visitor(visitor).visit(program)
}

function readSources(pattern: string) {
  return globSync(pattern, {
    cwd: root,
    exclude: ['**/*.test.ts', '**/*.test.tsx', '**/dist/**', '**/node_modules/**'],
  })
    .toSorted()
    .map((path) => {
      const source = readFileSync(join(root, path), 'utf8')
      return { path, source, program: parseSync(path, source).program }
    })
}
