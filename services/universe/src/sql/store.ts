// For files beside a store.ts that hold SQL: only stores import tenant-db.
export { type Statement, arrayLiteral, getRow, statement } from '@postern/tenant-db'
