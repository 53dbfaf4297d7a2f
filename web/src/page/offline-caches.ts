/** Beginning of the names of the worker's caches, one a version. */
export const cachePrefix = (scope: string): string => `conclave ${new URL(scope).pathname} `;
