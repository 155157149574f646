/**
 * Installs the packages of the dashboard when they are missing or differ from its lockfile.
 * @throws BuildFailed
 */
export function installDashboardPackages(root: string): Promise<void>;

/** Whether `dashboard/dist` was built from the present sources. */
export function isDashboardCurrent(root: string): boolean;
