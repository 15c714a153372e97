import { describeCode, signInCodes } from '../../packages/sign-in/src/refusal.ts'
import { renderTable } from './table.ts'

export function renderSignInCodes(): string {
  const rows = signInCodes.map((code) => {
    const { cause, advice } = describeCode(code)
    return [`\`${code}\``, cause, advice]
  })
  return `# Codes of refused sign-ins

The console logs them as \`sign_in_refused\`, the gateway as \`token_refused\`. \`read\` has the pointers that were read, \`found\` and \`wanted\` the values. The page
of the refused person has the code and a reference: the \`request_id\` of both lines. This file is generated from the code: \`npm run docs\`.

${renderTable(['code', 'what happened', 'what to do'], rows)}`
}
