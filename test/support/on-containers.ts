/** The variable with the file of the installation, if tests run on containers. */
export const installationVariable = 'POSTERN_TEST_INSTALLATION'

/** Whether the test stack's processes run on this machine, so that memory and open files can be read. */
export const hasProcesses = process.platform === 'linux' && process.env[installationVariable] === undefined
