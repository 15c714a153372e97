import { createHash } from 'node:crypto'

type Json = Readonly<Record<string, unknown>>

export interface ReferencePage {
  readonly html: Buffer
  /** Allows only the page's own style, by its hash. */
  readonly contentSecurityPolicy: string
}

const style = `
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;margin:0;display:grid;grid-template-columns:17rem 1fr}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1rem;border-right:1px solid var(--line);box-sizing:border-box}
nav ul{list-style:none;padding:0 0 0 .5rem;margin:0 0 1rem}nav a{text-decoration:none}
main{padding:1rem 2rem;max-width:60rem;min-width:0}
section{border-top:1px solid var(--line);padding:1rem 0}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .5rem;border-top:1px solid var(--line)}
code,pre{font:13px/1.45 ui-monospace,monospace}pre{background:var(--soft);padding:.75rem;overflow:auto}
.method{font-weight:700;display:inline-block;min-width:4rem}.who{float:right}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto}}`

export function referencePage(document: Json): ReferencePage {
  const operations = operationsOf(document)
  const tags = [...new Set(operations.map(({ tag }) => tag))]
  const info = asJson(document['info'])
  const html = Buffer.from(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<title>${escape(info['title'])} API</title><style>${style}</style></head><body>` +
      `<nav><h2><a href="#top">${escape(info['title'])} API</a></h2>${tags.map((tag) => menuOf(tag, operations)).join('')}` +
      `<a href="#schemas">Schemas</a></nav><main id="top"><h1>${escape(info['title'])} API ${escape(info['version'])}</h1>` +
      `<p>${escape(info['summary'])}. The same as a document for machines: <a href="api/v1/openapi.json">OpenAPI 3.1</a>.</p>` +
      `${scopesOf(document)}${tags.map((tag) => partOf(tag, operations)).join('')}${schemasOf(document)}</main></body></html>`,
  )
  const hash = createHash('sha256').update(style).digest('base64')
  return {
    html,
    contentSecurityPolicy: `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  }
}

interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly json: Json
}

function operationsOf(document: Json): Operation[] {
  return Object.entries(asJson(document['paths'])).flatMap(([path, item]) =>
    Object.entries(asJson(item)).map(([method, operation]) => {
      const json = asJson(operation)
      const [tag] = asList(json['tags'])
      return { id: String(json['operationId']), method: method.toUpperCase(), path, tag: String(tag), json }
    }),
  )
}

function menuOf(tag: string, operations: readonly Operation[]): string {
  const links = operations
    .filter((operation) => operation.tag === tag)
    .map(({ id, json }) => `<li><a href="#${escape(id)}">${escape(json['summary'])}</a></li>`)
  return `<h3>${escape(tag)}</h3><ul>${links.join('')}</ul>`
}

function scopesOf(document: Json): string {
  const rows = Object.entries(asJson(document['x-scopes'])).map(
    ([scope, description]) => `<tr><td><code>${escape(scope)}</code></td><td>${escape(description)}</td></tr>`,
  )
  return `<h2>Scopes</h2><table>${rows.join('')}</table>`
}

function partOf(tag: string, operations: readonly Operation[]): string {
  return `<h2>${escape(tag)}</h2>${operations
    .filter((operation) => operation.tag === tag)
    .map(sectionOf)
    .join('')}`
}

function sectionOf({ id, method, path, json }: Operation): string {
  return (
    `<section id="${escape(id)}"><span class="who">${whoOf(json)}</span><h3>${escape(json['summary'])}</h3>` +
    `<p><code><span class="method">${escape(method)}</span> ${escape(path)}</code></p>` +
    (json['description'] === undefined ? '' : `<p>${prose(json['description'])}</p>`) +
    `${parametersOf(json)}${bodyOf(json)}${answersOf(json)}</section>`
  )
}

function whoOf(json: Json): string {
  if (asList(json['security']).length === 0) return 'no credentials'
  const scope = json['x-required-scope']
  if (typeof scope === 'string') return `<code>${escape(scope)}</code>`
  if (scope !== undefined)
    return asList(asJson(scope)['oneOf'])
      .map((each) => `<code>${escape(each)}</code>`)
      .join(' or ')
  const role = json['x-required-role']
  return role === undefined ? 'any credentials' : `people with the role <code>${escape(role)}</code>`
}

function parametersOf(json: Json): string {
  const rows = asList(json['parameters']).map((each) => {
    const { name, in: place, required, description, schema } = asJson(each)
    return (
      `<tr><td><code>${escape(name)}</code></td><td>${escape(place)}${required === true ? ', required' : ''}</td>` +
      `<td>${prose(description ?? '')} <code>${escape(typeOf(schema))}</code></td></tr>`
    )
  })
  return rows.length === 0 ? '' : `<h4>Parameters</h4><table>${rows.join('')}</table>`
}

function bodyOf(json: Json): string {
  const body = asJson(json['requestBody'])
  return Object.entries(asJson(body['content']))
    .map(([mediaType, media]) => `<h4>Body: <code>${escape(mediaType)}</code></h4>${mediaOf(asJson(media))}`)
    .join('')
}

function answersOf(json: Json): string {
  return Object.entries(asJson(json['responses']))
    .map(([status, response]) => {
      const { description, headers, content } = asJson(response)
      const names = Object.keys(asJson(headers))
      const media = Object.entries(asJson(content)).map(([type, each]) =>
        type === 'application/problem+json' ? '' : `<p><code>${escape(type)}</code></p>${mediaOf(asJson(each))}`,
      )
      return (
        `<details${Number(status) < 300 ? ' open' : ''}><summary><b>${escape(status)}</b> ${prose(description)}</summary>` +
        `<p>Headers: ${names.map((name) => `<code>${escape(name)}</code>`).join(', ')}</p>${media.join('')}</details>`
      )
    })
    .join('')
}

function mediaOf({ schema, example }: Json): string {
  const shown = example === undefined ? '' : `<pre>${escape(JSON.stringify(example, null, 2))}</pre>`
  return `<p>${linkOf(schema)}</p>${shown}`
}

function schemasOf(document: Json): string {
  const all = Object.entries(asJson(asJson(document['components'])['schemas'])).map(
    ([name, schema]) =>
      `<section id="schema-${escape(name)}"><h3>${escape(name)}</h3><p>${prose(asJson(schema)['description'] ?? '')}</p>${membersOf(asJson(schema))}</section>`,
  )
  return `<h2 id="schemas">Schemas</h2>${all.join('')}`
}

function membersOf(schema: Json): string {
  const required = asList(schema['required'])
  const rows = Object.entries(asJson(schema['properties'])).map(
    ([name, property]) =>
      `<tr><td><code>${escape(name)}</code>${required.includes(name) ? '' : ' (optional)'}</td><td>${linkOf(property)}</td>` +
      `<td>${prose(asJson(property)['description'] ?? '')}</td></tr>`,
  )
  return rows.length > 0 ? `<table>${rows.join('')}</table>` : `<pre>${escape(JSON.stringify(schema, null, 2))}</pre>`
}

function linkOf(schema: unknown): string {
  const { $ref, items, anyOf } = asJson(schema)
  if (typeof $ref === 'string') {
    const name = $ref.split('/').at(-1)
    return `<a href="#schema-${escape(name)}">${escape(name)}</a>`
  }
  if (items !== undefined) return `list of ${linkOf(items)}`
  if (Array.isArray(anyOf)) return anyOf.map(linkOf).join(' or ')
  return `<code>${escape(typeOf(schema))}</code>`
}

function typeOf(schema: unknown): string {
  const { type, format, enum: words, anyOf } = asJson(schema)
  if (Array.isArray(words)) return words.join(' | ')
  if (Array.isArray(anyOf)) return anyOf.map(typeOf).join(' | ')
  const name = Array.isArray(type) ? type.join(' | ') : String(type ?? 'any')
  return typeof format === 'string' ? `${name} (${format})` : name
}

function prose(text: unknown): string {
  return escape(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}

function escape(text: unknown): string {
  return String(text ?? '')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

function asJson(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {}
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
