import { readFile } from 'node:fs/promises'
import { audiences, guideNames } from './names.ts'
import { renderGuide, titleOf } from './render-guide.ts'
import { style } from './style.ts'

// The same from `src` and `dist`.
const folder = new URL('../../../../docs/guides/', import.meta.url)

/** The page at `/docs/guides`. */
export async function guidesIndex(): Promise<Buffer> {
  return pageOf('Guides', `<h1>Guides</h1>${navigationOf(await readTitles(), 'guides/')}`, '../docs', '')
}

/** The page at `/docs/guides/<name>`. */
export async function guidePage(name: string): Promise<Buffer> {
  const { title, html } = renderGuide(await readGuide(name))
  return pageOf(title, html, '../../docs', navigationOf(await readTitles(), '', name))
}

async function readGuide(name: string): Promise<string> {
  return await readFile(new URL(`${name}.md`, folder), 'utf8')
}

async function readTitles(): Promise<ReadonlyMap<string, string>> {
  return new Map(
    await Promise.all([...guideNames].map(async (name) => [name, titleOf(await readGuide(name))] as const)),
  )
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
