export { retryOnce, idleConnections } from './connection.ts'
export { NoAnswerError, ServiceUnavailableError } from './errors.ts'
export {
  type ServiceAddress,
  type ServiceAnswer,
  type ServiceClient,
  type ServiceClientOptions,
  type ServiceRequest,
  createServiceClient,
  serviceCaller,
} from './service-client.ts'
export { signHeaders } from './sign-headers.ts'
