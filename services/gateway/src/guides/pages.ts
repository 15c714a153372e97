import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { renderGuide, titleOf } from './render-guide.ts'
import { style } from './style.ts'

const audiences: Readonly<Record<string, readonly string[]>> = {
  Integrators: [
    'first-request',
    'read-lists',
    'follow-changes',
    'load-a-warehouse',
    'excel-and-power-bi',
    'document-findings',
    'upload-evidence',
    'push-the-universe',
    'generate-a-client',
    'ai-agents',
  ],
  Administrators: ['manage-keys', 'automate-keys', 'provision-with-scim', 'receive-webhooks'],
  Auditors: ['audit-feed', 'verify-a-log'],
  Operators: [
    'run-the-demo',
    'single-sign-on',
    'sign-in-auth0',
    'sign-in-dex',
    'sign-in-entra-id',
    'sign-in-google-workspace',
    'sign-in-keycloak',
    'sign-in-okta',
    'console-sessions',
    'receive-github-reports',
  ],
}

const names = new Set(Object.values(audiences).flat())
// The same from `src` and `dist`.
const folder = new URL('../../../../docs/guides/', import.meta.url)

export const guidesPolicy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

export interface Guides {
  /** The page at `/docs/guides`. */
  index(): Promise<Buffer>
  /** The page at `/docs/guides/<name>`, or undefined if there is no such guide. */
  find(name: string): Promise<Buffer> | undefined
}

/** Reads the guides on first use. */
export function createGuides(): Guides {
  let titles: Promise<ReadonlyMap<string, string>> | undefined
  const navigation = async (base: string, current?: string) =>
    navigationOf(await (titles ??= readTitles()), base, current)

  async function page(name: string): Promise<Buffer> {
    const { title, html } = renderGuide(await readGuide(name))
    return pageOf(title, html, '../../docs', await navigation('', name))
  }
  return {
    index: async () => pageOf('Guides', `<h1>Guides</h1>${await navigation('guides/')}`, '../docs', ''),
    find: (name) => (names.has(name) ? page(name) : undefined),
  }
}

async function readGuide(name: string): Promise<string> {
  return await readFile(new URL(`${name}.md`, folder), 'utf8')
}

async function readTitles(): Promise<ReadonlyMap<string, string>> {
  return new Map(await Promise.all([...names].map(async (name) => [name, titleOf(await readGuide(name))] as const)))
}

function navigationOf(titles: ReadonlyMap<string, string>, base: string, current?: string): string {
  const groups = Object.entries(audiences).map(([audience, guides]) => {
    const items = guides.map((name) => {
      const mark = name === current ? ' aria-current="page"' : ''
      return `<li><a href="${base}${name}"${mark}>${titles.get(name) ?? name}</a></li>`
    })
    return `<section><h2>${audience}</h2><ul>${items.join('')}</ul></section>`
  })
  return `<nav aria-label="Guides">${groups.join('')}</nav>`
}

function pageOf(title: string, content: string, reference: string, beside: string): Buffer {
  return Buffer.from(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<link rel="icon" href="data:,"><title>${title} · Postern</title><style>${style}</style></head><body>` +
      `<header><a href="${reference}/guides">Postern guides</a> <a href="${reference}">API reference</a></header>` +
      `<div class="columns"><main>${content}</main>${beside}</div>` +
      `<footer>Paths in parentheses are files in the repository of Postern.</footer></body></html>`,
  )
}
