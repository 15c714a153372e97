export { findFreePort } from './ports.ts'
