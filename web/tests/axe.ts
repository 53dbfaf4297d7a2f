/** Runs axe-core inside a page, in any browser, from an address beside the page. */

interface Axe {
  run(
    context: unknown,
    options: object,
  ): Promise<{
    violations: {
      id: string;
      help: string;
      nodes: { target: unknown; failureSummary?: string }[];
    }[];
  }>;
}

/**
 * Runs in the page without outer scope. Returns a line for every violation of WCAG 2.2 AA and of
 * good practice.
 */
export async function faults(address: string): Promise<string[]> {
  const given = globalThis as unknown as { axe?: Axe };
  if (!given.axe) {
    const script = document.createElement("script");
    script.src = new URL(address, document.baseURI).href;
    await new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error(`${script.src} does not load`)));
      document.head.append(script);
    });
  }
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const { violations } = await given.axe!.run(document, {
    runOnly: tags,
    resultTypes: ["violations"],
  });
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(
      ({ target, failureSummary }) =>
        `${id} (${help}) at ${JSON.stringify(target)}: ${failureSummary ?? ""}`,
    ),
  );
}
