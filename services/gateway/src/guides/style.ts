import { createHash } from 'node:crypto'

export const style = `
:root { color-scheme: light dark; --line: light-dark(#d5d9df, #3a424e); --quiet: light-dark(#f4f5f7, #1d232c); --link: light-dark(#0b57a4, #8ebcf5) }
* { box-sizing: border-box }
body { margin: 0; font: 1rem/1.6 system-ui, sans-serif; color: light-dark(#1c2128, #e3e7ec); background: light-dark(#fff, #14181e) }
a { color: var(--link) }
header, footer { display: flex; gap: 2rem; padding: .8rem 1.5rem; border-bottom: 1px solid var(--line) }
header a:first-child { font-weight: 600 }
footer { border: 0; border-top: 1px solid var(--line); font-size: .9rem }
.columns { max-width: 76rem; margin: 0 auto; padding: 0 1.5rem 3rem }
main { min-width: 0; max-width: 50rem }
h1 { font-size: 2rem; line-height: 1.25; margin: 1.8rem 0 1rem }
h2 { font-size: 1.35rem; margin: 2.2rem 0 .6rem }
h3 { font-size: 1.1rem; margin: 1.6rem 0 .4rem }
h2 a, h3 a, h4 a { color: inherit; text-decoration: none }
h2 a:hover, h3 a:hover, h4 a:hover { text-decoration: underline }
code { font: .875em/1.5 ui-monospace, monospace; background: var(--quiet); border-radius: 3px; padding: .1em .3em; overflow-wrap: anywhere }
pre { overflow-x: auto; background: var(--quiet); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem }
pre code { padding: 0; background: none; overflow-wrap: normal }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .45rem .8rem .45rem 0; border-bottom: 1px solid var(--line) }
td code { overflow-wrap: normal }
nav h2 { font-size: 1rem; margin: 0 0 .3rem }
nav section { padding-top: 1.2rem }
nav ul { list-style: none; margin: 0; padding: 0 }
nav li { padding: .15rem 0 }
nav a { text-decoration: none }
nav a:hover { text-decoration: underline }
nav [aria-current] { color: inherit; font-weight: 600 }
@media (min-width: 60rem) {
  .columns:has(> nav) { display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 3rem }
  .columns > nav { order: -1; font-size: .93rem; padding-top: .6rem }
  main > nav { columns: 2 }
  main > nav section { break-inside: avoid }
}
`

export const guidesPolicy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
