export const snippetKinds = ['curl', 'python', 'powershell', 'power-query'] as const
export type SnippetKind = (typeof snippetKinds)[number]

export const snippetNames: Readonly<Record<SnippetKind, string>> = {
  curl: 'curl',
  python: 'Python',
  powershell: 'PowerShell',
  'power-query': 'Power Query',
}

export const snippetHelp: Readonly<Record<SnippetKind, string>> = {
  curl: 'Paste this into a terminal and press Enter. Then paste the key, which is not shown, and press Enter.',
  python: 'Run this with Python 3. It asks for the key and does not show it.',
  powershell: 'Paste this into PowerShell. It asks for the key and does not show it.',
  'power-query':
    'For Excel and Power BI: create a text parameter PosternKey (Manage Parameters), and choose the credential Anonymous.',
}

/** Returns a program that reads `/whoami`. None contains the key, so that no history, file or process list has it. */
export function snippetOf(kind: SnippetKind, apiUrl: string): string {
  const url = `${apiUrl}/api/v1/whoami`
  switch (kind) {
    case 'curl':
      return `read -rs POSTERN_KEY && printf 'header = "Authorization: ApiKey %s"' "$POSTERN_KEY" | curl --config - '${url}'`
    case 'python':
      return [
        'import getpass, urllib.request',
        'key = getpass.getpass("Postern key: ").strip()',
        `request = urllib.request.Request("${url}", headers={"Authorization": f"ApiKey {key}"})`,
        'print(urllib.request.urlopen(request).read().decode())',
      ].join('\n')
    case 'powershell':
      return [
        '$secret = Read-Host "Postern key" -AsSecureString',
        '$key = [System.Net.NetworkCredential]::new("", $secret).Password',
        `Invoke-RestMethod -Uri "${url}" -Headers @{ Authorization = "ApiKey $key" }`,
      ].join('\n')
    case 'power-query':
      return [
        'let',
        `    Response = Web.Contents("${apiUrl}", [`,
        '        RelativePath = "api/v1/whoami",',
        '        Headers = [Authorization = "ApiKey " & PosternKey]',
        '    ])',
        'in',
        '    Json.Document(Response)',
      ].join('\n')
    default:
      return kind satisfies never
  }
}
