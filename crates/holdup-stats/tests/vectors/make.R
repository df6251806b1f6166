# Makes vectors_r.json: what R says, for holdup-stats to be held against.
#
# Run with any R that has the package boot: Rscript make.R > vectors_r.json
# The versions that made the committed file stand in it.
library(boot)
set.seed(20261121)

number <- function(x) paste0("[", paste(sprintf("%.17g", x), collapse = ", "), "]")
field <- function(name, x) sprintf("\"%s\": %s", name, if (length(x) == 1) sprintf("%.17g", x) else number(x))
row <- function(...) paste0("  {", paste(c(...), collapse = ", "), "}")
table <- function(name, rows) sprintf(" \"%s\": [\n%s\n ]", name, paste(rows, collapse = ",\n"))

paired <- sapply(c(4, 6, 12, 40), function(n) {
  block <- rnorm(n, 0, 0.05)
  a <- 1000 * exp(block + rnorm(n, 0, 0.02))
  b <- 1030 * exp(block + rnorm(n, 0, 0.02))
  t <- t.test(log(b), log(a), paired = TRUE)
  row(field("a", a), field("b", b), field("p", t$p.value), field("log_interval", t$conf.int))
})

welch <- sapply(c(3, 5, 10, 30), function(n) {
  a <- 1000 * exp(rnorm(n, 0, 0.02))
  b <- 1020 * exp(rnorm(n + 2, 0, 0.05))
  t <- t.test(log(b), log(a))
  row(field("a", a), field("b", b), field("p", t$p.value), field("log_interval", t$conf.int), field("df", t$parameter))
})

ranks <- sapply(c(3, 4, 5, 8, 10, 20), function(n) {
  a <- rnorm(n, 100, 2)
  b <- rnorm(n, 100 + 6 / sqrt(n), 2)
  row(field("a", a), field("b", b), field("p", wilcox.test(a, b, exact = TRUE)$p.value))
})

# Skewed on purpose: the corrections must matter.
bca <- sapply(c(10, 20, 60), function(n) {
  a <- rep(1000, n)
  b <- 1000 * exp(0.05 * rexp(n))
  d <- log(b) - log(a)
  ci <- boot.ci(boot(d, function(x, i) mean(x[i]), R = 200000), type = "bca")$bca
  row(field("a", a), field("b", b), field("log_interval", ci[4:5]))
})

cat("{\n \"made_by\": \"make.R\",\n")
cat(sprintf(" \"r\": \"%s\",\n \"boot\": \"%s\",\n", getRversion(), packageVersion("boot")))
cat(paste(c(table("paired", paired), table("welch", welch), table("ranks", ranks), table("bca", bca)), collapse = ",\n"))
cat("\n}\n")
