import { fileTypeFromBuffer } from 'file-type'
import { activeText } from './active-text.ts'

/** How many of the first bytes are looked at: what the detector wants at most for the formats that matter here. */
export const headBytes = 4100

export type FileKind =
  /** `detected` is the media type that the first bytes show, null where they show none. */
  { readonly accepted: true; readonly detected: string | null } | { readonly accepted: false; readonly reason: string }

/**
 * What no audit needs as evidence and what can harm the person who opens it: programs, installers, scripts, and text that
 * a browser would run. The list is of types found in the bytes, so that a renamed program is refused too.
 */
const refusedDetected: ReadonlySet<string> = new Set([
  'application/java-archive',
  'application/java-vm',
  'application/vnd.android.package-archive',
  'application/vnd.ms-htmlhelp',
  'application/wasm',
  'application/x-apple-diskimage',
  'application/x-deb',
  'application/x-elf',
  'application/x-ft-apple.alias',
  'application/x-google-chrome-extension',
  'application/x-mach-binary',
  'application/x-ms-regedit',
  'application/x-ms-shortcut',
  'application/x-msdownload',
  'application/x-rpm',
  'application/x-shockwave-flash',
  'application/x-xpinstall',
])

/** Media types that a sender may not declare, since a later reader would be handed the file under them. */
const refusedDeclared: ReadonlySet<string> = new Set([
  ...refusedDetected,
  'application/ecmascript',
  'application/hta',
  'application/javascript',
  'application/vnd.microsoft.portable-executable',
  'application/x-bat',
  'application/x-dosexec',
  'application/x-executable',
  'application/x-httpd-php',
  'application/x-javascript',
  'application/x-msdos-program',
  'application/x-msi',
  'application/x-sh',
  'application/x-sharedlib',
  'application/x-shellscript',
  'application/xhtml+xml',
  'image/svg+xml',
  'text/ecmascript',
  'text/html',
  'text/javascript',
  'text/x-shellscript',
])

/** Endings by which an operating system decides to run a file, whatever its bytes. */
const refusedEnding =
  /\.(?:apk|app|appimage|application|appref-ms|appx(?:bundle)?|bash|bat|cjs|cmd|com|command|cpl|csh|desktop|dll|dmg|exe|gadget|hta|html?|inf|ins|jar|jnlp|js|jse|ksh|lnk|mht|mhtml|mjs|msc|msi|msix(?:bundle)?|msp|mst|phar|php|pif|pkg|pl|ps1(?:xml)?|psd1|psm1|pyw?|rb|reg|scf|scr|sct|sh|shtml|svgz?|sys|url|vb|vbe|vbs|wasm|ws[cfh]?|xht|xhtml|xll|zsh)$/i

/** Media types that are taken, `type/subtype` or `type/*`; undefined where all are that are not refused. */
export type AllowedTypes = readonly string[] | undefined

function isAllowed(allowed: AllowedTypes, essence: string): boolean {
  return allowed === undefined || allowed.some((type) => type === essence || type === essence.replace(/\/.*$/, '/*'))
}

/** The media type without its parameters, in lower case. */
function essenceOf(contentType: string): string {
  return contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/** Judges by what the sender says, before a byte is read. Trailing dots and spaces do not hide an ending from Windows. */
export function judgeDeclared(fileName: string, contentType: string, allowed?: AllowedTypes): FileKind {
  if (refusedDeclared.has(essenceOf(contentType))) {
    return { accepted: false, reason: 'Programs, scripts and web pages are not taken as evidence.' }
  }
  // After a colon comes the name of a stream: `a.exe:b.txt` is a.exe to Windows.
  if (fileName.split(':').some((part) => refusedEnding.test(part.replace(/[. ]+$/, '')))) {
    return { accepted: false, reason: 'The file name has the ending of a program, a script or a web page.' }
  }
  if (!isAllowed(allowed, essenceOf(contentType))) {
    return { accepted: false, reason: 'Files of the declared media type are not taken here.' }
  }
  return { accepted: true, detected: null }
}

/** Judges by the first bytes, at most `headBytes` of them. */
export async function judgeBytes(head: Buffer, allowed?: AllowedTypes): Promise<FileKind> {
  const active = activeText(head)
  if (active !== undefined) return { accepted: false, reason: `The file is ${active}, which is not taken as evidence.` }
  const detected = await detect(head)
  if (detected !== null && refusedDetected.has(detected)) {
    return { accepted: false, reason: 'The file is a program or an installer, which is not taken as evidence.' }
  }
  // Many formats are text, in which nothing can be detected: those are what they are declared to be.
  if (detected !== null && !isAllowed(allowed, detected)) {
    return { accepted: false, reason: `The first bytes show ${detected}, which is not taken here.` }
  }
  return { accepted: true, detected }
}

async function detect(head: Buffer): Promise<string | null> {
  let found: string | undefined
  try {
    found = (await fileTypeFromBuffer(head))?.mime
  } catch {
    // The detector walks into containers; one that is broken or cut off shows nothing, which is no reason to refuse it.
    return null
  }
  // Two letters are all that the detector asks of a DOS program: a CSV about Mozambique begins with them as well.
  if (found === 'application/x-msdownload' && !head.subarray(0, 64).includes(0)) return null
  return found ?? null
}
