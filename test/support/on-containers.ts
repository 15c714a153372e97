/** Names the file that tells tests where the installation of this run is, where they run on containers. */
export const installationVariable = 'POSTERN_TEST_INSTALLATION'

/** Whether what a test stack runs are processes of this machine, of which memory and open files can be read. */
export const hasProcesses = process.platform === 'linux' && process.env[installationVariable] === undefined
