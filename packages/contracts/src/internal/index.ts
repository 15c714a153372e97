export * from './leases.ts'
export * from './tenants.ts'
