import { posix } from 'node:path'
import { Marked, type Tokens } from 'marked'

export interface Guide {
  readonly title: string
  readonly html: string
}

/** Renders a file of `docs/guides`. */
export function renderGuide(markdown: string): Guide {
  const ids = new Set<string>()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading) {
        const content = this.parser.parseInline(tokens)
        if (depth === 1) return `<h1>${content}</h1>\n`
        const id = uniqueId(text, ids)
        return `<h${depth} id="${id}"><a href="#${id}">${content}</a></h${depth}>\n`
      },
      link({ href, tokens }: Tokens.Link) {
        const content = this.parser.parseInline(tokens)
        if (/^(?:https?:|#)/.test(href)) return `<a href="${escapeHtml(href)}">${content}</a>`
        const guide = /^([a-z0-9-]+)\.md(#.*)?$/.exec(href)
        if (guide !== null) return `<a href="${guide[1]}${escapeHtml(guide[2] ?? '')}">${content}</a>`
        // Only the repository has this file.
        const file = posix.join('docs/guides', href.replace(/#.*/, ''))
        return `${content} (<code>${escapeHtml(file)}</code>)`
      },
      code({ text }: Tokens.Code) {
        return `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`
      },
      table(token: Tokens.Table) {
        const row = (cells: Tokens.TableCell[], tag: string) =>
          `<tr>${cells.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('')}</tr>`
        const body = token.rows.map((cells) => row(cells, 'td')).join('')
        return `<div class="wide" tabindex="0"><table><thead>${row(token.header, 'th')}</thead><tbody>${body}</tbody></table></div>\n`
      },
      html({ text }: Tokens.HTML | Tokens.Tag) {
        return escapeHtml(text)
      },
    },
  })
  return { title: titleOf(markdown), html: marked.parse(markdown, { async: false }) }
}

export function titleOf(markdown: string): string {
  const title = /^# (.+)$/m.exec(markdown)?.[1]
  if (title === undefined) throw new Error('a guide begins with its title')
  return escapeHtml(title.replaceAll('`', ''))
}

/** The id that GitHub gives to a heading. */
function uniqueId(text: string, taken: Set<string>): string {
  const id = text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-')
  let free = id
  for (let count = 1; taken.has(free); count += 1) free = `${id}-${count}`
  taken.add(free)
  return free
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
