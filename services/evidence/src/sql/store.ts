// Only stores import tenant-db.
export { getRow, statement } from '@postern/tenant-db'
