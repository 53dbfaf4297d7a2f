/** Runs axe-core inside a page, in any browser; the script lies beside the page. */

interface Axe {
  run(
    context: unknown,
    options: object,
  ): Promise<{
    violations: {
      id: string;
      help: string;
      nodes: { target: unknown; failureSummary?: string; element?: Element }[];
    }[];
  }>;
}

/**
 * Runs in the page without outer scope. Returns a line for every violation of WCAG 2.2 AA and of
 * good practice. A target that is too small only because a sticky part of the page lies over it
 * where the page is scrolled to is none.
 */
export async function faults(): Promise<string[]> {
  const given = globalThis as unknown as { axe?: Axe };
  if (!given.axe) {
    const script = document.createElement("script");
    script.src = new URL("./axe/axe.min.js", document.baseURI).href;
    await new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error(`${script.src} does not load`)));
      document.head.append(script);
    });
  }
  const axe = given.axe!;
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const check = (context: unknown, runOnly: string[]): ReturnType<Axe["run"]> =>
    axe.run(context, { runOnly, resultTypes: ["violations"], elementRef: true });
  const place = [scrollX, scrollY] as const;
  const isClearElsewhere = async (element: Element): Promise<boolean> => {
    element.scrollIntoView({ block: "center", behavior: "instant" });
    return (await check(element, ["target-size"])).violations.length === 0;
  };
  const found: string[] = [];
  for (const { id, help, nodes } of (await check(document, tags)).violations)
    for (const { target, failureSummary, element } of nodes) {
      if (id === "target-size" && element && (await isClearElsewhere(element))) continue;
      found.push(`${id} (${help}) at ${JSON.stringify(target)}: ${failureSummary ?? ""}`);
    }
  scrollTo({ left: place[0], top: place[1], behavior: "instant" });
  return found;
}
