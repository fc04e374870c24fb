# R: vectors, data frames, a linear model, regular expressions.
cat > work.R <<'R'
set.seed(1)
x <- data.frame(a = 1:20000 %% 97, b = rep(letters, length.out = 20000), c = sqrt(1:20000))
print(head(aggregate(c ~ b, x, sum), 3), digits = 8)
print(round(coef(lm(c ~ a, x)), 6))
m <- matrix(1:90000 %% 101, 300)
cat("det", sum(diag(m %*% t(m))), "\n")
words <- paste0("w", (1:50000 * 31) %% 9973)
cat("words", length(unique(words)), sum(nchar(gsub("1", "one", words))), "\n")
l <- list(); for (i in 1:5000) l[[paste0("k", i)]] <- rnorm(20)
cat("list", length(l), round(sum(sapply(l, length))), "\n")
invisible(gc())
R
R --vanilla --slave -f work.R
