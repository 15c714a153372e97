import { fileTypeFromBuffer } from 'file-type'
import { activeText } from './active-text.ts'

export const headBytes = 4100

export type FileKind =
  /** `detected`: null if unknown. */
  { readonly accepted: true; readonly detected: string | null } | { readonly accepted: false; readonly reason: string }

/** Types by content, so that renaming does not help. */
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

/** Types that no reader should receive, whatever the content. */
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

/** Endings that make an operating system run the file, or something that it names. */
const refusedEndings: ReadonlySet<string> = new Set(
  [
    // Programs, their parts, installers and scripts.
    'apk app appimage application appref-ms appx appxbundle bash bat cjs cmd com command cpl crx csh desktop dll dmg drv exe gadget hta inf ins jar jnlp job js jse ksh mjs msc msi msix msixbundle msp mst msu ocx phar php pif pkg',
    'pl ps1 ps1xml psd1 psm1 py pyc pyw pyz pyzw rb reg scr sct sh swf sys vb vbe vbs wasm wll ws wsc wsf wsh xbap xll xpi zsh',
    // Pages and help files that run scripts, or run on a server.
    'asp aspx chm hlp htm html jsp mht mhtml shtml svg svgz xht xhtml',
    // Shortcuts, connections and queries that fetch or start what they name.
    'diagcab iqy library-ms lnk oqy rdp rqy scf search-ms searchconnector-ms settingcontent-ms slk theme themepack url website',
    // Disk images: files in a mounted image lose the mark of the web.
    'img iso vhd vhdx',
  ].flatMap((endings) => endings.split(' ')),
)

/** Trailing dots and spaces do not hide an ending from Windows. */
function hasRefusedEnding(name: string): boolean {
  const trimmed = name.replace(/[. ]+$/, '')
  const dot = trimmed.lastIndexOf('.')
  return dot >= 0 && refusedEndings.has(trimmed.slice(dot + 1).toLowerCase())
}

/** `type/subtype` or `type/*`. Undefined: all that are not rejected. */
export type AllowedTypes = readonly string[] | undefined

function isAllowed(allowed: AllowedTypes, essence: string): boolean {
  return allowed === undefined || allowed.some((type) => type === essence || type === essence.replace(/\/.*$/, '/*'))
}

function essenceOf(contentType: string): string {
  return contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

export function judgeDeclared(fileName: string, contentType: string, allowed?: AllowedTypes): FileKind {
  if (refusedDeclared.has(essenceOf(contentType))) {
    return { accepted: false, reason: 'Programs, scripts and web pages are not accepted as evidence.' }
  }
  // For Windows `a.exe:b.txt` is a.exe.
  if (fileName.split(':').some(hasRefusedEnding)) {
    return {
      accepted: false,
      reason: 'The file name ends like that of a program, script, web page or shortcut.',
    }
  }
  if (!isAllowed(allowed, essenceOf(contentType))) {
    return { accepted: false, reason: 'This installation does not accept files of the declared media type.' }
  }
  return { accepted: true, detected: null }
}

export async function judgeBytes(head: Buffer, allowed?: AllowedTypes): Promise<FileKind> {
  const active = activeText(head)
  if (active !== undefined)
    return { accepted: false, reason: `The file is ${active}, which is not accepted as evidence.` }
  const detected = await detect(head)
  if (detected !== null && refusedDetected.has(detected)) {
    return { accepted: false, reason: 'The file is a program or an installer, which is not accepted as evidence.' }
  }
  // Text formats cannot be detected.
  if (detected !== null && !isAllowed(allowed, detected)) {
    return {
      accepted: false,
      reason: `The first bytes are those of ${detected}, which this installation does not accept.`,
    }
  }
  return { accepted: true, detected }
}

async function detect(head: Buffer): Promise<string | null> {
  let found: string | undefined
  try {
    found = (await fileTypeFromBuffer(head))?.mime
  } catch {
    // A damaged container is no reason to reject the file.
    return null
  }
  // The detector needs only two letters for a DOS program; a CSV may start with them.
  if (found === 'application/x-msdownload' && !head.subarray(0, 64).includes(0)) return null
  return found ?? null
}
