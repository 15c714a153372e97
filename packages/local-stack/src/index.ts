export type { Demo } from './seed.ts'
export { seed } from './seed.ts'
export type { Stack, StackOptions, StackPorts } from './stack.ts'
export { startStack } from './stack.ts'
